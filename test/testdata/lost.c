/* libdynprof/resident/rows/lost.c, when more births are on their way than it has room for. */
#include "../../libdynprof/resident/rows/lost.c"

#include <stdio.h>

#define CHECK(is) (void)((is) || (printf("line %d: %s\n", __LINE__, #is), failed = 1))

int main(void)
{
	static struct dp_birth *all[PLACES], row;
	int failed = 0;
	for (int i = 0; i < PLACES; i++) {
		CHECK((all[i] = dp_lost_take()) && dp_is_lost(all[i]));
		all[i]->rsp = (uint64_t)i;
	}
	CHECK(!dp_lost_take() && !dp_is_lost(&row));
	for (int i = 0; i < PLACES; i++)
		CHECK(all[i]->rsp == (uint64_t)i); /* each has its own */
	all[7]->resume = 0; /* its child has read it */
	CHECK(dp_lost_take() == all[7] && !dp_lost_take());
	dp_lost_free(all[9]);
	CHECK(dp_lost_take() == all[9] && !dp_lost_take());
	dp_lost_forked(all[5]);
	for (int i = 0; i < PLACES - 1; i++)
		CHECK(dp_lost_take() != all[5]);
	CHECK(!dp_lost_take());
	return failed;
}
