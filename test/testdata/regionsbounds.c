/* Makes a region at each of some places that are far apart, in the order that its arguments from the
 * second on say. Behind each it accesses memory at all of them, at the edges of what may be a region,
 * with addresses of all forms. It writes down each access that has to be recorded, as "REGION OFFSET
 * SIZE KIND", to the file that its first argument names. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memtr.h"

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif

enum { BEGIN = 0xff0, BYTES = 0x20, PLACES = 6 };
static const uint64_t places[PLACES] = {0, 0x10000000, 0x200000000000, 0x5fffffffe000, 0x600000004000, 0x700000000000};
static int is_mapped[PLACES];
static uint64_t made[PLACES];
static int regions;
static FILE *expected;

static void expect(uint64_t at, int size)
{
	for (int i = 0; i < regions; i++)
		if (at + (uint64_t)size > made[i] && at < made[i] + BYTES)
			fprintf(expected, "%d %ld %d load\n", i + 1, (long)(at - made[i]), size);
}

/* So no flag is live in front. */
#define DEAD "\n\ttestl %%eax, %%eax"

#define BY(name, disp) ALONE static void name(uint64_t r) { __asm__ volatile("movq " disp "(%0), %%rax" DEAD : : "r"(r) : "rax", "memory", "cc"); }
BY(by_itself, "")
BY(by_less, "-1")
BY(by_much_less, "-2048")
BY(by_page_less, "-4096")
BY(by_more_less, "-4097")
BY(by_more, "4088")
BY(by_page_more, "4096")
BY(by_much_more, "74565")
static const struct { void (*go)(uint64_t); int disp; } forms[] = {
	{by_itself, 0}, {by_less, -1}, {by_much_less, -2048}, {by_page_less, -4096}, {by_more_less, -4097}, {by_more, 4088}, {by_page_more, 4096}, {by_much_more, 74565},
};

/* Some by one register, in less than a page. */
ALONE static void by_group(uint64_t r)
{
	__asm__ volatile("movq -1000(%0), %%rax\n\tmovq (%0), %%rax\n\tmovq 1000(%0), %%rax" DEAD : : "r"(r) : "rax", "memory", "cc");
}

/* By one that becomes another. */
ALONE static void by_two(uint64_t r, uint64_t other)
{
	__asm__ volatile("movq 8(%0), %%rax\n\tmovq %1, %0\n\tmovq 8(%0), %%rax" DEAD : "+&r"(r) : "r"(other) : "rax", "memory", "cc");
}

/* By two registers, of which the second counts twice; and by such a one alone. */
ALONE static void by_index(uint64_t r, uint64_t index) { __asm__ volatile("movq 8(%0,%1,2), %%rax" DEAD : : "r"(r), "r"(index) : "rax", "memory", "cc"); }
ALONE static void by_index_alone(uint64_t index) { __asm__ volatile("movq 16(,%0,8), %%rax" DEAD : : "r"(index) : "rax", "memory", "cc"); }

/* Where flags are live. */
ALONE static unsigned by_flags(uint64_t r, uint64_t low, uint64_t high)
{
	unsigned flags;
	__asm__ volatile("cmpq %3, %2\n\tmovq (%1), %%rax\n\tmovq 8(%1), %%rax\n\tsbbl %0, %0" : "=&r"(flags) : "r"(r), "r"(low), "r"(high) : "rax", "memory", "cc");
	return flags;
}

/* Behind what stores flags, and in front of what loads them. */
ALONE static unsigned by_stored_flags(uint64_t r, uint64_t low, uint64_t high)
{
	unsigned flags;
	__asm__ volatile("movq %%rsp, %%rdx\n\tsubq $256, %%rsp\n\tcmpq %3, %2\n\tpushfq\n\tmovq (%1), %%rax\n\tpopfq\n\tmovq 8(%1), %%rax\n\tsbbl %0, %0\n\tmovq %%rdx, %%rsp"
			 : "=&r"(flags) : "r"(r), "r"(low), "r"(high) : "rax", "rdx", "memory", "cc");
	return flags;
}

/* In rounds. */
ALONE static void by_rounds(uint64_t r, uint64_t n)
{
	__asm__ volatile("1:\tmovb -3(%0), %%al\n\tincq %0\n\tdecq %1\n\tjne 1b" : "+r"(r), "+r"(n) : : "rax", "memory", "cc");
}

static void accesses(uint64_t at)
{
	for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
		expect(at, 8);
		forms[i].go(at - (uint64_t)(int64_t)forms[i].disp);
	}
	for (int k = -1; k <= 1; k++) {
		for (int i = -1; i <= 1; i++)
			expect(at + (uint64_t)(int64_t)(1000 * (i + k)), 8);
		by_group(at + (uint64_t)(int64_t)(1000 * k));
	}
	uint64_t apart = places[1] + 0x2100;
	expect(at, 8), by_two(apart, at - 8);
	expect(at, 8), by_two(at - 8, apart);
	for (uint64_t index = 3; index; index <<= 20, index &= ~0xfffULL)
		expect(at, 8), by_index(at - 8 - 2 * index, index);
	expect(at, 8), by_index(at + 24, (uint64_t)-16);
	if (at % 8 == 0)
		expect(at, 8), by_index_alone((at - 16) / 8), expect(at, 8), by_index_alone((at - 16) / 8 + (3ULL << 61));
	for (int below = 0; below < 2; below++) {
		expect(at, 8), expect(at + 8, 8);
		if (by_flags(at, 1, below ? 2 : 1) != (below ? ~0U : 0U))
			abort();
		expect(at, 8), expect(at + 8, 8);
		if (by_stored_flags(at, 1, below ? 2 : 1) != (below ? ~0U : 0U))
			abort();
	}
	for (uint64_t i = 0; i < 10; i++)
		expect(at + i, 1);
	by_rounds(at + 3, 10);
}

int main(int argc, char **argv)
{
	expected = argc > 1 ? fopen(argv[1], "w") : NULL;
	if (!expected || memtr_init() < 0)
		return 1;
	for (int i = 0; i < PLACES; i++) /* the first is not for everybody */
		is_mapped[i] = mmap((void *)places[i], 0x3000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (void *)places[i];
	for (int a = 2; a < argc; a++) {
		uint64_t begin = places[atoi(argv[a])] + BEGIN;
		if (memtr_regist((void *)begin, BYTES) < 0)
			return 2;
		made[regions++] = begin;
		for (int i = 0; i < PLACES; i++) {
			static const int edges[] = {-8, -7, 0, 9, 16, BYTES - 8, BYTES - 1, BYTES};
			for (unsigned k = 0; is_mapped[i] && k < sizeof edges / sizeof *edges; k++)
				accesses(places[i] + BEGIN + (uint64_t)(int64_t)edges[k]);
		}
	}
	for (int i = 1; i < PLACES; i++)
		if (!is_mapped[i])
			return 3;
	return memtr_end() < 0 ? 4 : 0;
}
