/* A program that locks its memory: mlock size | all LIMIT | rich LIMIT [library].
 *
 *	size	prints how many kB of address space it has
 *	all	as an ordinary user, who may lock LIMIT kB
 *	rich	with the right to lock all
 *
 * It must come out the same whatever else is mapped.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static long status(const char *name)
{
	char line[256];
	long n = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, name, strlen(name)))
			n = atol(line + strlen(name));
	fclose(f);
	return n;
}

static const char *word(int ret) { return ret == 0 ? "ok" : errno == ENOMEM ? "ENOMEM" : errno == EPERM ? "EPERM" : errno == EAGAIN ? "EAGAIN" : "?"; }

__attribute__((noinline)) static int step(int i)
{
	static volatile int kept;
	return kept += i;
}

static void *thread(void *arg)
{
	for (int i = 0; i < 100; i++)
		step(i);
	return arg;
}

int main(int argc, char **argv)
{
	enum { MB = 1 << 20 };
	if (argc < 3) {
		printf("%ld\n", status("VmSize:"));
		return 0;
	}
	struct rlimit limit;
	getrlimit(RLIMIT_MEMLOCK, &limit);
	rlim_t wanted = (rlim_t)atol(argv[2]) << 10;
	limit.rlim_cur = limit.rlim_max = wanted < limit.rlim_max ? wanted : limit.rlim_max;
	long most = (long)(limit.rlim_cur >> 10);
	int rich = !strcmp(argv[1], "rich");
	if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (!rich && getuid() == 0 && setuid(65534) != 0))
		return 77;
	for (int i = 0; i < 1000; i++)
		step(i);
	printf("current %s\n", word(mlockall(MCL_CURRENT)));
	printf("within %d\n", status("VmLck:") <= most);
	printf("unlock %s\n", word(munlockall()));
	printf("nothing %d\n", status("VmLck:") == 0);
	printf("none %s\n", word(mlockall(0)) );
	printf("on fault %s\n", word(mlockall(MCL_CURRENT | MCL_ONFAULT)));
	printf("within %d\n", status("VmLck:") <= most);
	printf("both %s\n", word(mlockall(MCL_CURRENT | MCL_FUTURE)));
	printf("within %d\n", status("VmLck:") <= most);
	char *more = mmap(0, 4 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("more %s\n", more == MAP_FAILED ? word(-1) : "ok");
	if (argc > 3) {
		void *library = dlopen(argv[3], RTLD_NOW);
		int (*late)(int) = library ? (int (*)(int))dlsym(library, "late_step") : 0;
		printf("library %d\n", late != 0);
		for (int i = 0; late && i < 100; i++)
			late(i);
	}
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	pthread_t t;
	int failed = pthread_create(&t, &attr, thread, 0);
	printf("thread %d\n", failed);
	if (!failed)
		pthread_join(t, 0);
	printf("rss %d\n", status("VmRSS:") < most + 40 * 1024); /* nothing of ours was fetched whole */
	return 0;
}
