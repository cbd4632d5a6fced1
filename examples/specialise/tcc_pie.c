/* Debian's libtcc.a is made for executables, which have copies of libc's variables
 * nearby. A library has not; the linker gives it these instead (--wrap). */
#include <stdio.h>

#define NEARBY __attribute__((visibility("hidden")))

extern FILE *__real_stdout, *__real_stderr;
extern char **__real_environ;
FILE *__wrap_stdout NEARBY, *__wrap_stderr NEARBY;
char **__wrap_environ NEARBY;

__attribute__((constructor)) static void begin(void)
{
	__wrap_stdout = __real_stdout;
	__wrap_stderr = __real_stderr;
	__wrap_environ = __real_environ;
}
