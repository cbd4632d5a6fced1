/* With -DLATE a program that loads the library that is named so often, and calls fill each time;
 * with one more argument once more behind a child's dlclose. Else the library, most of which is in no file. */
#ifdef LATE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	for (int n = argc > 2 ? atoi(argv[2]) : 0; n > 0; n--) {
		void *library = dlopen(argv[1], RTLD_NOW);
		void (*fill)(void) = library ? (void (*)(void))dlsym(library, "fill") : 0;
		if (!fill)
			return 1;
		fill();
		if (argc > 3) {
			if (fork() == 0) {
				dlclose(library);
				_exit(0);
			}
			wait(0);
			fill();
		}
		dlclose(library);
	}
	return 0;
}
#else
static int before[5000], numbers[100], behind[5000];
static void *use(int *p)
{
	__asm__ volatile("" : "+r"(p));
	return p;
}
void fill(void)
{
	int *to = use(numbers);
	use(before), use(behind);
	for (int i = 0; i < 100; i++)
		((volatile int *)to)[i] += i;
}
#endif
