/* With -DMAIN a program that calls the library's step ten times; with -DLATE one that loads it
 * from the file that is named, twice, and calls step four and three times. */
void step(void);
#ifdef MAIN
int main(void)
{
	for (int i = 0; i < 10; i++)
		step();
	return 0;
}
#elif defined LATE
#include <dlfcn.h>
int main(int argc, char **argv)
{
	for (int round = 4; argc > 1 && round >= 3; round--) {
		void *library = dlopen(argv[1], RTLD_NOW);
		void (*again)(void) = library ? (void (*)(void))dlsym(library, "step") : 0;
		if (!again)
			return 1;
		for (int i = 0; i < round; i++)
			again();
		dlclose(library);
	}
	return 0;
}
#else
int counter = 1;
void step(void) { counter++; }
#endif
