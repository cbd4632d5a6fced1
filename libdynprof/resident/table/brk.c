/* See brk.h. */
#include <fcntl.h>

#include "base/filters.h"
#include "base/own.h"
#include "base/stub.h"
#include "table/brk.h"

uint64_t dp_brk_begin(void)
{
	enum { FIELD = 47, BEHIND_NAME = 3 }; /* start_brk of proc_pid_stat(5); the state is behind the name */
	char text[1024];
	long fd = dp_open_own("stat", O_RDONLY);
	long got = failed(fd) ? 0 : ask(SYS_read, fd, text, sizeof text - 1);
	uint64_t begin = 0;
	int field = 0;
	if (!failed(fd))
		ask(SYS_close, fd);
	text[failed(got) ? 0 : got] = 0;
	for (const char *s = text; *s; s++) {
		if (*s == ')')
			field = BEHIND_NAME - 1, begin = 0; /* the last one: a name may have some */
		else if (*s == ' ' && field)
			field++;
		else if (field == FIELD && *s >= '0' && *s <= '9')
			begin = 10 * begin + (uint64_t)(*s - '0');
	}
	return begin;
}

uint64_t dp_brk_most(uint64_t begin)
{
	static const uint64_t most = 4ULL << 30;
	return begin < DP_SHADOW && DP_SHADOW - begin < most ? DP_SHADOW - begin : most;
}
