/* A program that notices when functions of its own are patched: it reads their
 * first bytes. The first argument says what it does then. Built with
 * -fcf-protection=none, so that a patched function begins with a jump. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile int sink;

#define F(n) __attribute__((noinline)) int filler_##n(int x) { sink += x * (n + 3); return sink ^ (n * 77); }
#define TEN(n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7) F(n##8) F(n##9)

TEN(1) TEN(2) TEN(3)
__attribute__((noinline)) int alpha(int x) { sink += x; return sink * 5; }
TEN(4) TEN(5) TEN(6)
__attribute__((noinline)) int beta(int x) { sink -= x; return sink * 9; }
TEN(7)
/* Also in the library. */
__attribute__((noinline)) static int twin(int x) { sink ^= x; return sink * 13; }
TEN(8)

/* Where its call comes back to only a copy changes. */
int copied(int x);
extern const unsigned char comes_back[];
__asm__(".text\n.globl copied, comes_back\n.type copied, @function\ncopied:\n\tpush %rbx\n\tmov %edi, %ebx\n\tcall filler_55\n"
	"comes_back:\n\tadd %ebx, %eax\n\tadd $1000, %eax\n\tpop %rbx\n\tret\n.size copied, . - copied\n");

#ifdef WITH_LIBRARY
typedef int function(int);
function *library_function(void);
#endif

static int patched(int (*f)(int)) { return *(volatile unsigned char *)f == 0xe9; }

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	char line[200] = "";
	if (!strcmp(mode, "exec"))
		return execlp("sh", "sh", "-c", "\"$0\" one; exit 0", argv[0], (char *)0);
	printf("begin %d\n", alpha(1) + beta(2) + twin(3) + filler_55(4));
	fflush(stdout);
	if (!strcmp(mode, "one"))
		printf("alpha %d\n", patched(alpha));
	if (!strcmp(mode, "copy"))
		printf("%d copied %d\n", copied(1), *(volatile const unsigned char *)comes_back == 0xe9);
	if (!strcmp(mode, "status"))
		return 3 + patched(beta);
	if (!strcmp(mode, "both"))
		printf("together %d\n", patched(alpha) && patched(beta));
	if (!strcmp(mode, "either"))
		fprintf(stderr, "one of them %d\n", patched(alpha) || patched(beta));
	if (!strcmp(mode, "crash") && patched(alpha))
		abort();
	while (!strcmp(mode, "hang") && patched(beta))
		pause();
	while (!strcmp(mode, "endless") && patched(beta))
		puts("and on, and on, and on, and on, and on, and on, and on, and on, and on, and on, and on, and on, and on");
	if (!strcmp(mode, "input"))
		while (fgets(line, sizeof line, stdin))
			printf("%c%s", "+-"[patched(alpha) && !strcmp(line, "two\n")], line);
	if (!strcmp(mode, "clock")) {
		struct timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		printf("%ld.%09ld alpha %d\n", (long)now.tv_sec, now.tv_nsec, patched(alpha));
	}
	if (!strcmp(mode, "preload"))
		printf("library %d\n", access("/proc/self/maps", R_OK) == 0 && system("grep -q libdynprof /proc/$PPID/maps") == 0);
#ifdef WITH_LIBRARY
	if (!strcmp(mode, "library"))
		printf("%d of the library %d\n", library_function()(1), patched(library_function()));
#endif
	puts("end");
	return 0;
}
