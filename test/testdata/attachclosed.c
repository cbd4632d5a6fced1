/* A program that is attached to, and has something else where text of a library was: attachclosed
 * LIBRARY HOW, with the library of this file, built with LIBRARY. Commands on stdin, each answered
 * by a line, of what the library returns:
 *
 *	call    calls what is left of the library
 *	change  HOW: data, none or file are mapped where the text of the closed library was; part
 *		takes a page of it away
 *	may     says what may be done with what is there
 *	use     writes to what is there, where that may be, and looks at it
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE };

#ifdef LIBRARY
__attribute__((aligned(PAGE), noinline)) long closed_first(long x) { return x * 3 + 1; }
__attribute__((aligned(PAGE), noinline)) long closed_second(long x) { return x * 5 + 1; }
#else
static void *library;
static char *text, *first; /* the pages of the library's code, and of its first function */
static size_t size;

/* Says what may be done with what is there. */
static const char *look(const void *there)
{
	static char line[512], prot[5];
	uintptr_t low, high;
	const char *found = "";
	FILE *maps = fopen("/proc/self/maps", "r");
	while (!*found && fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %4s", &low, &high, prot) == 3 && low <= (uintptr_t)there && (uintptr_t)there < high)
			found = prot;
	fclose(maps);
	if (!text) {
		text = (char *)low;
		size = high - low;
	}
	return found;
}

static long call(const char *name, long x)
{
	long (*f)(long) = (long (*)(long))(library ? dlsym(library, name) : 0);
	return f ? f(x) : 0;
}

static void map_there(int prot, int flags, FILE *file)
{
	dlclose(library);
	library = 0;
	if (mmap(text, size, prot, MAP_PRIVATE | MAP_FIXED_NOREPLACE | flags, file ? fileno(file) : -1, 0) != text)
		puts("the text is still there");
}

static void change(const char *how)
{
	if (!strcmp(how, "data"))
		map_there(RW, MAP_ANONYMOUS, 0);
	else if (!strcmp(how, "none"))
		map_there(PROT_NONE, MAP_ANONYMOUS, 0);
	else if (!strcmp(how, "file"))
		map_there(PROT_READ, 0, fopen("/proc/self/exe", "r"));
	else
		munmap(first, PAGE);
}

static void use(const char *how)
{
	if (!strcmp(how, "data"))
		memset(text, 1, size);
	if (!strcmp(how, "none"))
		mprotect(text, size, RW);
}

int main(int argc, char **argv)
{
	char what[16];
	(void)argc;
	setvbuf(stdout, 0, _IOLBF, 0);
	library = dlopen(argv[1], RTLD_NOW);
	first = (char *)dlsym(library, "closed_first");
	look(first);
	puts("ready");
	while (scanf("%15s", what) == 1 && strcmp(what, "end")) {
		if (!strcmp(what, "change"))
			change(argv[2]);
		if (!strcmp(what, "use"))
			use(argv[2]);
		if (!strcmp(what, "may"))
			puts(look(first + PAGE));
		else
			printf("%ld\n", call("closed_second", 1));
	}
	return 0;
}
#endif
