/* Loads libraries, each as often as told, and prints the sum of what their
 * functions say: how, how often, the libraries.
 *
 *	f       in a sandbox
 *	DIGIT   in so many processes at a time
 *	k       while others do the same, and are killed in the middle of it
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void filter(void)
{
	struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog p = {1, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
}

static long load(const char *library)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		puts(dlerror());
		exit(1);
	}
	long sum = ((int (*)(int))dlsym(handle, "late_work"))(10);
	dlclose(handle);
	return sum;
}

static int load_all(int times, char **libraries)
{
	long sum = 0;
	for (; *libraries; libraries++)
		for (int n = 0; n < times; n++)
			sum += load(*libraries);
	printf("%ld\n", sum);
	return fflush(stdout);
}

/* Another process, which is killed while it loads. */
static void kill_one(const char *library)
{
	int started[2];
	if (pipe(started))
		exit(1);
	pid_t child = fork();
	while (child == 0) {
		load(library);
		if (write(started[1], "", 1) < 0)
			_exit(0);
	}
	close(started[1]);
	char byte;
	if (read(started[0], &byte, 1) == 1)
		usleep((useconds_t)(child % 7) * 700);
	kill(child, SIGKILL);
	waitpid(child, 0, 0);
	close(started[0]);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	int processes = argv[1][0] >= '1' && argv[1][0] <= '9' ? argv[1][0] - '0' : 0;
	if (argv[1][0] == 'f')
		filter();
	for (int i = 0; i < processes; i++)
		if (fork() == 0)
			_exit(load_all(atoi(argv[2]), argv + 3));
	for (int i = 0; i < 20 && argv[1][0] == 'k'; i++)
		kill_one(argv[3]);
	while (processes-- > 0)
		wait(0);
	return load_all(atoi(argv[2]), argv + 3);
}
