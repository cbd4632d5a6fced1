/* See audit.h. */
#include "base/filters.h"
#include "base/layout.h"
#include "table/audit.h"

static uint64_t area;

void dp_audit_begin(uint64_t at) { area = at; }

int dp_audit_is(void) { return area && __atomic_load_n((uint64_t *)(area + DP_RG_AUDIT), __ATOMIC_ACQUIRE); }

void dp_audit_rest(void)
{
	if (dp_audit_is())
		ask(SYS_getpid, DP_RG_AUDIT_CALL, 1);
}

void dp_audit_tell(void)
{
	if (dp_audit_is())
		ask(SYS_getpid, DP_RG_AUDIT_CALL);
}
