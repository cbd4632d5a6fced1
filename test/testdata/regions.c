/* Does known accesses to memory, in assembly, so that each is known: address, size, kind, order.
 * It writes down each one that has to be recorded, as "REGION OFFSET SIZE KIND", to the file that
 * its first argument names; the region's name is its number, from 1. The second argument is what
 * is done. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "memtr.h"

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif

unsigned char table[256] __attribute__((aligned(64))), apart[256] __attribute__((aligned(64))), before[8192] __attribute__((aligned(4096)));

static FILE *expected;

static void expect(int region, long offset, int size, const char *kind) { fprintf(expected, "%d %ld %d %s\n", region, offset, size, kind); }

/* Sizes and kinds. */
ALONE void kinds(unsigned char *p)
{
	__asm__ volatile("movzbl 1(%0), %%eax\n\t"
			 "movw %%ax, 2(%0)\n\t"
			 "movl 4(%0), %%eax\n\t"
			 "movq %%rax, 8(%0)\n\t"
			 "addq $3, 16(%0)\n\t"
			 "lock incl 24(%0)\n\t"
			 "xchgq %%rax, 32(%0)\n\t"
			 "movups 48(%0), %%xmm0\n\t"
			 "movups %%xmm0, 64(%0)\n\t"
			 "cmpb $0, 100(%0)\n\t"
			 "pushq 104(%0)\n\t"
			 "popq 112(%0)\n\t"
			 "prefetcht0 120(%0)\n\t"
			 "lea 128(%0), %%rax\n\t"
			 "nopw 130(%0)\n\t"
			 : : "r"(p) : "rax", "xmm0", "memory", "cc");
}

/* Of which region each is: of those that read, write, and do both, up to an offset and behind it. 0: none. */
struct of {
	int load, store, both, store_behind;
	long offset;
};

static void expect_chosen(struct of of)
{
	static const struct { int offset, size; const char *kind; } all[] = {
		{1, 1, "load"}, {2, 2, "store"}, {4, 4, "load"}, {8, 8, "store"}, {16, 8, "both"}, {24, 4, "both"}, {32, 8, "both"},
		{48, 16, "load"}, {64, 16, "store"}, {100, 1, "load"}, {104, 8, "load"}, {112, 8, "store"},
	};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
	{
		const char *kind = all[i].kind;
		int store = all[i].offset < of.offset ? of.store : of.store_behind, region = *kind == 'l' ? of.load : *kind == 's' ? store : of.both;
		if (region)
			expect(region, all[i].offset, all[i].size, kind);
	}
}

static void expect_kinds(int region) { expect_chosen((struct of){region, region, region, region, 0}); }

/* An index, a scale, and flags that are live across accesses. */
ALONE uint64_t sums(const uint64_t *p, long n)
{
	uint64_t low = 0, carries = 0;
	long i = 0;
	__asm__ volatile("clc\n"
			 "1:\tadcq (%2,%3,8), %0\n\t"
			 "adcq $0, %1\n\t"
			 "lea 1(%3), %3\n\t"
			 "dec %4\n\t"
			 "jnz 1b\n\t"
			 : "+r"(low), "+r"(carries), "+r"(p), "+r"(i), "+r"(n) : : "memory", "cc");
	return low + carries;
}

/* The neighbours of a region: what ends in front of it, or reaches into it. */
ALONE void edges(unsigned char *p, long n)
{
	__asm__ volatile("movq $1, -8(%0)\n\t"
			 "movq $2, -7(%0)\n\t"
			 "movups -15(%0), %%xmm0\n\t"
			 "movb $3, -1(%0)\n\t"
			 "movq $4, -1(%0,%1)\n\t"
			 "movb $5, (%0,%1)\n\t"
			 : : "r"(p), "r"(n) : "memory", "xmm0");
}

/* The stack: a leaf with a red zone, in which the region is. */
ALONE long zone(long n)
{
	long r;
	__asm__ volatile("movq %1, -64(%%rsp)\n\t"
			 "movq %1, -120(%%rsp)\n\t"
			 "movq -64(%%rsp), %0\n\t"
			 "addq -120(%%rsp), %0\n\t"
			 : "=&r"(r) : "r"(n) : "memory", "cc");
	return r;
}

/* All registers are in use. */
ALONE uint64_t full(uint64_t *p)
{
	uint64_t r;
	__asm__ volatile("push %%rbp\n\t"
			 "mov %1, %%rbp\n\t"
			 "mov $1, %%eax\n\tmov $2, %%ebx\n\tmov $3, %%ecx\n\tmov $4, %%edx\n\tmov $5, %%esi\n\tmov $6, %%edi\n\t"
			 "mov $7, %%r8d\n\tmov $8, %%r9d\n\tmov $9, %%r10d\n\tmov $10, %%r11d\n\tmov $11, %%r12d\n\tmov $12, %%r13d\n\tmov $13, %%r14d\n\tmov $14, %%r15d\n\t"
			 "cmp $2, %%eax\n\t" /* the carry is live */
			 "mov (%%rbp), %%rbp\n\t"
			 "adc %%rbp, %%rax\n\tadd %%rbx, %%rax\n\tadd %%rcx, %%rax\n\tadd %%rdx, %%rax\n\tadd %%rsi, %%rax\n\tadd %%rdi, %%rax\n\t"
			 "add %%r8, %%rax\n\tadd %%r9, %%rax\n\tadd %%r10, %%rax\n\tadd %%r11, %%rax\n\tadd %%r12, %%rax\n\tadd %%r13, %%rax\n\tadd %%r14, %%rax\n\tadd %%r15, %%rax\n\t"
			 "pop %%rbp\n\t"
			 : "=&a"(r) : "r"(p) : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
	return r;
}

ALONE void repeated(void *to, const void *from, long n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

ALONE void once(void *to, const void *from)
{
	__asm__ volatile("movsq" : "+D"(to), "+S"(from) : : "memory");
}

ALONE void store(unsigned char *p, int n)
{
	__asm__ volatile("movb %b1, (%0)" : : "r"(p), "q"(n) : "memory");
}

static void *in_thread(void *p)
{
	for (int i = 0; i < 1000; i++)
		store(p, i);
	return 0;
}

static volatile sig_atomic_t handled, struck, moved;

static void handler(int sig, siginfo_t *info, void *context)
{
	const greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	static greg_t stack; /* in kinds, which moves it by a word */
	greg_t at = g[REG_RIP] - (greg_t)kinds;
	(void)sig, (void)info;
	if (at >= 0 && at < 64) {
		stack = stack ? stack : g[REG_RSP];
		struck++;
		moved += g[REG_RSP] - stack > 8 || stack - g[REG_RSP] > 8 || g[REG_RDI] != (greg_t)table;
	}
	store(apart, 1);
	handled++;
}

static int fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	return 3;
}

#define CHECK(what) do { if (!(what)) return fail(#what); } while (0)

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "";
	if (argc < 3 || !(expected = fopen(argv[1], "w")))
		return 2;
	if (!strcmp(how, "without")) { /* the library is not there, or records nothing */
		CHECK(memtr_init() == DYNPROF_OFF && memtr_regist(table, 1) == DYNPROF_OFF && memtr_remove(table) == DYNPROF_OFF && memtr_end() == DYNPROF_OFF);
		return 0;
	}
	CHECK(memtr_init() == 0 && memtr_init() == 0);
	if (!strcmp(how, "kinds")) {
		kinds(table);
		CHECK(memtr_regist(table, sizeof table) == 0);
		kinds(table);
		kinds(apart);
		expect_kinds(1);
		CHECK(memtr_regist(apart, sizeof apart) == 0);
		kinds(apart);
		expect_kinds(2);
		CHECK(memtr_regist(apart + 8, 24) == 0); /* the last one that there is has them */
		kinds(apart);
		for (int i = 0; i < 3; i++) {
			static const struct { int at, size; const char *kind; } in[] = {{1, 1, "load"}, {2, 2, "store"}, {4, 4, "load"}};
			expect(2, in[i].at, in[i].size, in[i].kind);
		}
		expect(3, 0, 8, "store"), expect(3, 8, 8, "both"), expect(3, 16, 4, "both");
		expect(2, 32, 8, "both"), expect(2, 48, 16, "load"), expect(2, 64, 16, "store"), expect(2, 100, 1, "load"), expect(2, 104, 8, "load"), expect(2, 112, 8, "store");
		CHECK(memtr_remove(apart) == 0 && memtr_remove(apart) == -2);
		kinds(apart);
		expect(3, 0, 8, "store"), expect(3, 8, 8, "both"), expect(3, 16, 4, "both");
		CHECK(memtr_remove(apart + 8) == 0 && memtr_remove(table) == 0);
		kinds(apart);
		kinds(table);
		CHECK(memtr_regist(table, 0) == -22 && memtr_regist((void *)-4096, 10) == -22 && memtr_regist(table, 1UL << 40) == -7);
	} else if (!strcmp(how, "registers")) {
		CHECK(memtr_regist(table, sizeof table) == 0);
		memset(apart, 255, 64);
		for (int i = 0; i < 8; i++)
			((uint64_t *)table)[i] = ~0ULL;
		for (int i = 0; i < 64; i += 8)
			expect(1, i, 8, "store");
		uint64_t sum = sums((uint64_t *)table, 8);
		for (int i = 0; i < 64; i += 8)
			expect(1, i, 8, "load");
		CHECK(sum == sums((uint64_t *)apart, 8));
		((uint64_t *)apart)[0] = 1000;
		CHECK(full((uint64_t *)apart) == 1000 + 1 + 105);
		CHECK(full((uint64_t *)table) == 105);
		expect(1, 0, 8, "load");
	} else if (!strcmp(how, "edges")) {
		unsigned char *p = before + 4096;
		CHECK(memtr_regist(p, 64) == 0);
		edges(p, 64);
		expect(1, -7, 8, "store"), expect(1, -15, 16, "load"), expect(1, 63, 8, "store");
	} else if (!strcmp(how, "page")) { /* several regions of one page, one after the other, and one that a child makes */
		CHECK(memtr_regist(before, 64) == 0);
		store(before + 40, 1), store(before + 41, 1), store(before + 128, 1);
		expect(1, 40, 1, "store"), expect(1, 41, 1, "store");
		CHECK(memtr_regist(before + 32, 64) == 0);
		store(before + 40, 2), store(before + 10, 2), store(before + 80, 2);
		expect(2, 8, 1, "store"), expect(1, 10, 1, "store"), expect(2, 48, 1, "store");
		CHECK(memtr_remove(before + 32) == 0);
		store(before + 40, 3), store(before + 40, 3), store(before + 80, 3);
		expect(1, 40, 1, "store"), expect(1, 40, 1, "store");
		CHECK(memtr_remove(before) == 0);
		store(before + 40, 4);
		CHECK(memtr_regist(before + 200, 8) == 0);
		store(before + 40, 5), store(before + 204, 5), store(before + 204, 5);
		expect(3, 4, 1, "store"), expect(3, 4, 1, "store");
		fflush(expected);
		pid_t child = fork();
		if (child == 0) {
			store(before + 300, 6);
			_exit(memtr_regist(before + 202, 128) != 0);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		store(before + 300, 7), store(before + 204, 7), store(before + 200, 7);
		expect(4, 98, 1, "store"), expect(4, 2, 1, "store"), expect(3, 0, 1, "store");
	} else if (!strcmp(how, "stack")) {
		unsigned char here[256];
		unsigned char *below = (unsigned char *)((uintptr_t)here - 4096);
		CHECK(memtr_regist(below, 4096 + sizeof here) == 0);
		long r = zone(21);
		CHECK(memtr_remove(below) == 0);
		CHECK(r == 42);
	} else if (!strcmp(how, "chosen")) {
		CHECK(dynprof_region_add(table, sizeof table, "all", 0) == 1);
		CHECK(dynprof_region_add(table, sizeof table, "loads", DYNPROF_REGION_LOAD) == 2);
		CHECK(dynprof_region_add(table, 64, "stores", DYNPROF_REGION_STORE) == 3);
		CHECK(dynprof_region_add(before, 4096, "alone", DYNPROF_REGION_LOAD) == 4);
		CHECK(dynprof_region_add(table, 8, "none", 4) == -22);
		for (int i = 0; i < 3; i++) {
			kinds(table);
			expect_chosen((struct of){2, 3, 3, 1, 64});
			kinds(before);
			expect_chosen((struct of){4, 0, 4, 0, 0});
		}
		CHECK(dynprof_region_remove(3) == 0);
		kinds(table);
		expect_chosen((struct of){2, 1, 2, 1, 0});
	} else if (!strcmp(how, "repeated")) {
		CHECK(memtr_regist(table, sizeof table) == 0);
		repeated(table, apart, 100);
		for (int i = 0; i < 100; i++)
			expect(1, i, 1, "store");
		once(table + 8, table + 16);
		expect(1, 16, 8, "load"), expect(1, 8, 8, "store");
	} else if (!strcmp(how, "threads")) {
		enum { THREADS = 4 };
		pthread_t t[THREADS];
		CHECK(memtr_regist(table, sizeof table) == 0);
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_create(&t[i], 0, in_thread, table + i) == 0);
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_join(t[i], 0) == 0);
		for (int i = 0; i < THREADS * 1000; i++)
			expect(1, i / 1000, 1, "store");
	} else if (!strcmp(how, "many")) { /* more than the ring holds */
		int n = argc > 3 ? atoi(argv[3]) : 300000;
		CHECK(memtr_regist(table, sizeof table) == 0);
		for (int i = 0; i < n; i++)
			store(table + i % 251, i);
		CHECK(memtr_end() == 0);
		fprintf(expected, "%d\n", n);
		fclose(expected);
		if (argc > 4)
			raise(SIGKILL);
		return 0;
	} else if (!strcmp(how, "signals")) {
		struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
		CHECK(sigaction(SIGALRM, &act, 0) == 0);
		CHECK(memtr_regist(table, sizeof table) == 0 && memtr_regist(apart, sizeof apart) == 0);
		struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
		int n = 0;
		for (setitimer(ITIMER_REAL, &often, 0); handled < 300 || !struck; n++) { /* on a busy machine many come at one place */
			kinds(table);
			CHECK(full((uint64_t *)before) == 106);
		}
		setitimer(ITIMER_REAL, &never, 0);
		CHECK(moved == 0);
		fprintf(expected, "%d %d\n", n, (int)handled);
	} else if (!strcmp(how, "fork")) {
		CHECK(memtr_regist(table, sizeof table) == 0);
		store(table, 1);
		expect(1, 0, 1, "store");
		fflush(expected);
		pid_t child = fork();
		if (child == 0) {
			store(table + 1, 1);
			_exit(0);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		store(table + 2, 1);
		expect(1, 1, 1, "store"), expect(1, 2, 1, "store");
	} else {
		return fail(how);
	}
	fclose(expected);
	return memtr_end();
}
