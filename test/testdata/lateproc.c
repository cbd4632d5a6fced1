/* Loads a library where /proc is somebody else's: its files are pipes that nobody writes
 * to, or have no end, or are not there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static int put(const char *how, const char *directory)
{
	static const char *const files[] = {"status", "maps", "cgroup", "pagemap", "statm", "stat", "mountinfo", "comm", "exe", "mem", "oom_score_adj"};
	char path[64];
	if (mkdir(directory, 0755) != 0)
		return 1;
	for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(path, sizeof path, "%s/%s", directory, files[i]);
		if (!strcmp(how, "pipes") && mkfifo(path, 0644) != 0)
			return 1;
		if (!strcmp(how, "endless") && symlink("/dev/zero", path) != 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3 || unshare(CLONE_NEWNS) != 0 || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0) != 0 || mount("none", "/proc", "tmpfs", 0, 0) != 0)
		return 2;
	char number[32];
	snprintf(number, sizeof number, "/proc/%d", (int)getpid());
	if (put(argv[1], "/proc/self") || put(argv[1], "/proc/thread-self") || put(argv[1], number))
		return 3;
	void *library = dlopen(argv[2], RTLD_NOW);
	int (*work)(int) = library ? (int (*)(int))dlsym(library, "late_work") : 0;
	if (!work)
		return 4;
	printf("%d\n", work(100));
	return 0;
}
