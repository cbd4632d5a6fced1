#include "sites/watched.h"
#include "sites/watches.h"

#define OR_IS(name, nr) || number == (nr)

/* Those that come often are not in the list (slowpath.S). */
int dp_is_watched(uint32_t number)
{
	return number == DP_NR_rt_sigaction || number == DP_NR_mmap || number == DP_NR_munmap || number == DP_NR_mremap || number == DP_NR_madvise ||
	       number == DP_NR_getrlimit || number == DP_NR_setrlimit || number == DP_NR_prlimit64
		DP_WATCHED(OR_IS);
}
