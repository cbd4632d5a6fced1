/* Loads libraries, each as often as told, in a sandbox or not: "f" or "", how often,
 * the libraries. Prints the sum of what their functions say. */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
	struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog p = {1, code};
	long sum = 0;
	if (argc > 1 && argv[1][0] == 'f') {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
	}
	for (int i = 3; i < argc; i++)
		for (int n = 0; n < atoi(argv[2]); n++) {
			void *handle = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
			if (!handle) {
				puts(dlerror());
				return 1;
			}
			sum += ((int (*)(int))dlsym(handle, "late_work"))(10);
			dlclose(handle);
		}
	printf("%ld\n", sum);
	return 0;
}
