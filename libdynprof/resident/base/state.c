/* See state.h. */
#include "base/hooks.h"
#include "base/state.h"

struct dp_state dp HIDDEN;
struct dp_hooks dp_hooks HIDDEN;
uint8_t dp_have_wrgsbase HIDDEN;
uint8_t dp_handles_traps HIDDEN;
uint64_t dp_withdrawn HIDDEN;
int dp_no_tsc HIDDEN;
int dp_own_objects HIDDEN;

int dp_stopped(void)
{
	return dp.table && __atomic_load_n(&dp.table->stopped, __ATOMIC_ACQUIRE) != 0;
}
