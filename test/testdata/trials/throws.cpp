// A handler throws out of a function that faults, and takes a backtrace.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <execinfo.h>
static int least = 99;
__attribute__((noinline)) int deref(volatile int *p) { int a = p[0]; return a * 7 + p[1] * 3 + p[2]; }
static void handler(int) { void *a[30]; int n = backtrace(a, 30); if (n < least) least = n; sigset_t s; sigemptyset(&s); sigaddset(&s, SIGSEGV); sigprocmask(SIG_UNBLOCK, &s, 0); throw 1; }
int main(int c, char **v) {
	signal(SIGSEGV, handler);
	int caught = 0, n = 0; time_t end = time(0) + atoi(v[1]);
	while (time(0) < end) for (int i = 0; i < 100; i++) { n++; try { deref(0); } catch (int) { caught++; } }
	printf("%s, backtraces of %d and more\n", n == caught ? "all caught" : "not all caught", least);
}
