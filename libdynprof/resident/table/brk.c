/* See brk.h. */
#include <fcntl.h>

#include "base/filters.h"
#include "base/layout.h"
#include "base/own.h"
#include "base/stub.h"
#include "table/brk.h"

static const uint64_t MOST = 4ULL << 30;

/* A number of proc_pid_stat(5); 0: nobody tells. */
static uint64_t stat_field(int which)
{
	enum { BEHIND_NAME = 3 }; /* the state */
	char text[1024];
	long fd = dp_open_own("stat", O_RDONLY);
	long got = failed(fd) ? 0 : ask(SYS_read, fd, text, sizeof text - 1);
	uint64_t n = 0;
	int field = 0;
	if (!failed(fd))
		ask(SYS_close, fd);
	text[failed(got) ? 0 : got] = 0;
	for (const char *s = text; *s; s++) {
		if (*s == ')')
			field = BEHIND_NAME - 1, n = 0; /* the last one: a name may have some */
		else if (*s == ' ' && field)
			field++;
		else if (field == which && *s >= '0' && *s <= '9')
			n = 10 * n + (uint64_t)(*s - '0');
	}
	return n;
}

struct dp_extent dp_heap(void)
{
	enum { START_BRK = 47 };
	uint64_t low = stat_field(START_BRK), most = low < DP_SHADOW && DP_SHADOW - low < MOST ? DP_SHADOW - low : MOST;
	return low ? (struct dp_extent){low, low + most} : (struct dp_extent){0, 0};
}

struct dp_extent dp_stack(void)
{
	enum { ENV_END = 51, STACK = 3 }; /* RLIMIT_STACK */
	struct {
		uint64_t now, most;
	} limit = {0};
	uint64_t at = stat_field(ENV_END);
	if (!at || failed(ask(SYS_prlimit64, 0, STACK, 0, &limit)))
		return (struct dp_extent){0, 0};
	/* Behind the variables is the path that was executed, and a word of zeros: fs/exec.c. */
	uint64_t high = at + text_len((const char *)at) + 1 + sizeof(uint64_t);
	high = (high + DP_PAGE_SIZE - 1) & ~(uint64_t)(DP_PAGE_SIZE - 1);
	uint64_t size = (limit.now < MOST ? limit.now : MOST) & ~(uint64_t)(DP_PAGE_SIZE - 1);
	return (struct dp_extent){high - size, high};
}
