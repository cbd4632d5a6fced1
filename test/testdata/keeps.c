/* What gcc -O2 makes of it: callers keep values over calls of step, note and others
 * in registers that are the callee's by the ABI, and do not align the stack for them. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define LOCAL __attribute__((noinline)) static

static volatile long seen;
LOCAL long step(long a, long b) { return a * 3 + b; }
LOCAL void note(long a) { seen += a; }
LOCAL double half(double a) { return a * 0.5; }
LOCAL long many(long a, long b, long c, long d, long e, long f, long g, long h) { return a - b + c - d + e - f + g * h; }
LOCAL long deep(long n) { return n < 2 ? n : deep(n - 1) + deep(n - 2); }

__attribute__((noinline)) long work(long n)
{
	long x = n * 3, y = n * 5, z = n * 7, w = n ^ 9, v = n + 11, u = n * 13, s = 0;
	for (long i = 0; i < n; i++) {
		s += step(x, i) + y * z;
		note(s);
		x += w * i, y += v, z ^= u, w += s, v *= 3, u -= s;
	}
	return s + x + y + z + w + v + u;
}

__attribute__((noinline)) double reals(long n)
{
	double a = 1, b = 2, c = 3, d = 4, s = 0;
	for (long i = 0; i < n; i++) {
		s += half(a + (double)i);
		a += b, b += c * 0.25, c += d * 0.125, d += s * 0.001;
	}
	return a + b + c + d + s;
}

__attribute__((noinline)) long stacked(long n)
{
	long x = n * 3, y = n + 5, s = 0;
	for (long i = 0; i < n; i++) {
		s += many(i, x, y, s, i + 1, x + 1, y + 1, 3);
		x += y, y ^= s;
	}
	return s + x + y;
}

__attribute__((noinline)) long shifted(long a, long b)
{
	note(a);
	return step(a, b) + b;
}

static void *thread(void *arg)
{
	long s = 0;
	for (int i = 0; i < 200; i++)
		s += work(20 + i % 7) + deep(8);
	*(long *)arg = s;
	return 0;
}

static void on_tick(int sig)
{
	(void)sig;
	void *frames[64];
	seen += backtrace(frames, 64) == 0; /* whatever is interrupted */
}

static jmp_buf out;
__attribute__((noinline)) void leave(long n) /* the plug-in's code calls it, too */
{
	longjmp(out, (int)n);
}
LOCAL void leaves(long n)
{
	if (n > 0)
		leave(n);
}

int main(int argc, char **argv)
{
	struct itimerval tick = {{0, 500}, {0, 500}};
	pthread_t threads[4];
	long sums[4];
	void *first[1];
	backtrace(first, 1);
	if (argc > 1)
		signal(SIGALRM, on_tick), setitimer(ITIMER_REAL, &tick, 0);
	printf("%ld %.17g %ld %ld %ld\n", work(100), reals(50), stacked(40), shifted(3, 4), deep(15));
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, thread, &sums[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	printf("%ld %ld %ld %ld\n", sums[0], sums[1], sums[2], sums[3]);
	int n = 0;
	for (volatile int i = 1; i < 5; i++)
		if ((n = setjmp(out)) == 0)
			leaves(i);
		else
			printf("left %d\n", n);
	return 0;
}
