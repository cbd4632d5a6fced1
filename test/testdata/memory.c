/* libdynprof/resident/base/memory.c: what is left in control groups of either version. */
#include "../../libdynprof/resident/base/memory.c"

#include <stdio.h>
#include <string.h>

#define CHECK(is) (void)((is) || (printf("line %d: %s\n", __LINE__, #is), failed = 1))

enum { MB = 1 << 20 };

/* Paths and texts, in turn. */
static const char *const *files;

uint64_t dp_read_start(const char *path, char *text, uint64_t size)
{
	for (const char *const *f = files; *f; f += 2)
		if (!strcmp(*f, path))
			return (uint64_t)snprintf(text, size, "%s", f[1]);
	*text = 0;
	return 0;
}

struct dp_whole dp_read_whole(const char *path)
{
	static char text[4096];
	return (struct dp_whole){.text = dp_read_start(path, text, sizeof text) ? text : 0};
}

void dp_drop_whole(struct dp_whole *w) { w->text = 0; }

uint64_t dp_number(const char **s)
{
	uint64_t n = 0;
	for (; **s >= '0' && **s <= '9'; ++*s)
		n = 10 * n + (uint64_t)(**s - '0');
	return n;
}

#define V2 "/sys/fs/cgroup"
#define V1 "/sys/fs/cgroup/memory"
#define ARE(...) (files = (const char *const[]){__VA_ARGS__, 0})

/* How many bytes there are, to a MB. */
static int left(int (*has)(uint64_t))
{
	for (int mb = 0; mb < 1000; mb++)
		if (!has((uint64_t)mb * MB))
			return mb - 1;
	return 1000;
}

static int lives(uint64_t bytes) { return !dp_ends_with_it(bytes); }

int main(void)
{
	int failed = 0;
	ARE("/etc/passwd", "");
	CHECK(left(dp_has_memory) == 1000); /* no groups */
	ARE("/proc/self/cgroup", "0::/\n");
	CHECK(left(dp_has_memory) == 1000); /* the root has no limit */
	ARE("/proc/self/cgroup", "0::/a/b c/d.scope\n",
	    V2 "/a/b c/d.scope/memory.max", "max\n",
	    V2 "/a/b c/memory.max", "104857600\n", V2 "/a/b c/memory.current", "52428800\n",
	    V2 "/a/b c/memory.stat", "anon 5\ninactive_file 10485760\nactive_file 1048576\n");
	CHECK(left(dp_has_memory) == 100 - 50 + 11 - MARGIN / MB);
	CHECK(left(lives) == 1000);
	ARE("/proc/self/cgroup", "0::/\n", /* in a container */
	    V2 "/memory.max", "104857600\n", V2 "/memory.current", "94371840\n", V2 "/memory.oom.group", "1\n");
	CHECK(left(dp_has_memory) == 2 && left(lives) == 2);
	ARE("/proc/self/cgroup", "0::/pod/app\n", /* that above it has the limit, and it is ended whole */
	    V2 "/pod/app/memory.oom.group", "1\n", V2 "/pod/app/memory.max", "max\n",
	    V2 "/pod/memory.max", "104857600\n", V2 "/pod/memory.current", "100000000\n");
	CHECK(left(lives) == -1 && left(dp_has_memory) == -1);
	ARE("/proc/self/cgroup", "0::/pod/app\n", /* a limit below what is ended whole ends single processes */
	    V2 "/pod/app/memory.max", "104857600\n", V2 "/pod/app/memory.current", "100000000\n",
	    V2 "/pod/app/memory.oom.group", "0\n", V2 "/pod/memory.oom.group", "1\n", V2 "/pod/memory.max", "max\n");
	CHECK(left(lives) == 1000 && left(dp_has_memory) == -1);
	ARE("/proc/self/cgroup", "5:cpu,memory:/docker/1\n1:name=systemd:/memory\n0::/\n", /* its path is that outside */
	    V1 "/memory.limit_in_bytes", "104857600\n", V1 "/memory.usage_in_bytes", "73400320\n",
	    V1 "/memory.stat", "inactive_file 1\nactive_file 1\ntotal_inactive_file 1048576\ntotal_active_file 1048576\n");
	CHECK(left(dp_has_memory) == 30 + 2 - MARGIN / MB && left(lives) == 1000);
	ARE("/proc/self/cgroup", "5:memory:/\n", V1 "/memory.limit_in_bytes", "9223372036854771712\n", V1 "/memory.usage_in_bytes", "1\n");
	CHECK(left(dp_has_memory) == 1000);
	ARE("/proc/self/cgroup", "5:memorysomething:/\nrubbish\n::\n4:\n", V1 "/memory.limit_in_bytes", "1\n");
	CHECK(left(dp_has_memory) == 1000);
	return failed;
}
