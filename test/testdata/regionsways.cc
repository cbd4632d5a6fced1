// Threads whose accesses to a region lie on both sides of calls that are left by exceptions and by
// longjmp. It prints how many each has made, by a count of its own.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>

extern "C" {
#include "memtr.h"
}

enum { THREADS = 16 };
unsigned char table[THREADS * 64] __attribute__((aligned(64)));

struct made {
	unsigned char *at;
	long stores, loads;
	jmp_buf out;
};

static inline void store(made &m) { asm volatile("movb $1, (%0)" : : "r"(m.at) : "memory"); m.stores++; }

static inline void load(made &m)
{
	unsigned char c;
	asm volatile("movb 1(%1), %0" : "=q"(c) : "r"(m.at) : "memory");
	m.loads++;
}

struct held { // its end runs in a landing pad
	made &m;
	explicit held(made &m) : m(m) { load(m); }
	~held() { store(m); }
};

__attribute__((noinline)) int deep(made &m, int n, int how)
{
	held h(m);
	store(m);
	if (n == 0 && how == 1)
		throw how;
	int r = n > 0 ? deep(m, n - 1, how) : 0;
	load(m);
	return r + 1;
}

__attribute__((noinline)) int far(made &m, int n)
{
	store(m);
	if (n == 0)
		longjmp(m.out, 1);
	int r = far(m, n - 1);
	load(m);
	return r + 1;
}

static void *run(void *p)
{
	made &m = *static_cast<made *>(p);
	for (volatile int i = 0; i < 300; i = i + 1) {
		try {
			deep(m, i % 7, i % 2);
		} catch (int) {
			load(m);
			store(m);
		}
		if (setjmp(m.out) == 0)
			far(m, i % 5);
		store(m);
	}
	return nullptr;
}

int main()
{
	static made all[THREADS];
	pthread_t t[THREADS];
	if (memtr_init() || memtr_regist(table, sizeof table))
		return 2;
	for (int i = 0; i < THREADS; i++) {
		all[i].at = table + 64 * i;
		if (pthread_create(&t[i], nullptr, run, &all[i]))
			return 3;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], nullptr);
	for (int i = 0; i < THREADS; i++)
		std::printf("%d %ld store\n%d %ld load\n", 64 * i, all[i].stores, 64 * i + 1, all[i].loads);
	return memtr_end();
}
