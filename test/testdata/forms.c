/* Accesses memory in ways that few programs do, in assembly, so that each access is known: address,
 * size, kind, order. It writes down each one, as "1 OFFSET SIZE KIND", to the file that its first
 * argument names. The second argument is which ways; with a third one that begins with r the memory
 * is a region, in which it has number 1. What it computes is printed. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memtr.h"

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif

enum { PAGE = 4096, BYTES = 16 * PAGE };

static unsigned char *const at = (unsigned char *)0x10000000;
static FILE *expected;
static uint64_t total; /* of all that was computed */

static void expect(long offset, int size, const char *kind) { fprintf(expected, "1 %ld %d %s\n", offset, size, kind); }

static void sum(uint64_t n) { total = (total << 7 | total >> 57) ^ n; }

static uint64_t base(void)
{
	uint64_t is;
	__asm__ volatile("rdfsbase %0" : "=r"(is));
	return is;
}

/* Flags that are live across all of it, and with rax in addresses. */
ALONE uint64_t by_fs(uint64_t to)
{
	uint64_t r = 5, flags;
	__asm__ volatile("cmpq $6, %0\n\t" /* carry */
			 "movq %%fs:(%2), %%rax\n\t"
			 "adcq %%rax, %0\n\t"
			 "movq %2, %%rax\n\t"
			 "incl %%fs:0x20(%%rax)\n\t"
			 "movb $3, %%fs:0x1f(%%rax)\n\t"
			 "movl $2, %%eax\n\t"
			 "movl $0x77, %%fs:0x3f(%2,%%rax)\n\t"
			 "movl %%fs:0x4e(%2,%%rax), %%ecx\n\t"
			 "lock btsl $0, %%fs:0x60(%2)\n\t"
			 "movups %%fs:0xff8(%2), %%xmm0\n\t" /* crosses a page */
			 "pushfq\n\tpopq %1\n\t"
			 : "+r"(r), "=&r"(flags) : "r"(to) : "rax", "rcx", "xmm0", "cc", "memory");
	return r + (flags & 1);
}

static void expect_fs(long o)
{
	expect(o, 8, "load"), expect(o + 0x20, 4, "both"), expect(o + 0x1f, 1, "store"), expect(o + 0x41, 4, "store"), expect(o + 0x50, 4, "load"), expect(o + 0x60, 4, "both"), expect(o + 0xff8, 16, "load");
}

/* The base changes between accesses of one block. */
ALONE uint64_t moved(uint64_t to)
{
	uint64_t r = 0;
	__asm__ volatile("rdfsbase %%rsi\n\t"
			 "lea 0x80(%1), %%rdx\n\t"
			 "wrfsbase %1\n\t"
			 "movl %%fs:0x10, %%eax\n\t"
			 "addl $7, %%fs:0x14\n\t"
			 "wrfsbase %%rdx\n\t"
			 "movl %%fs:0x10, %%ecx\n\t"
			 "movl %%ecx, %%fs:0x14\n\t"
			 "wrfsbase %%rsi\n\t"
			 "lea (%%rax,%%rcx), %0\n\t"
			 : "=r"(r) : "r"(to) : "rax", "rcx", "rdx", "rsi", "cc", "memory");
	return r;
}

/* Of the registers 32 bits count. */
ALONE uint64_t of_32_bits(uint64_t to)
{
	uint64_t r = 5;
	__asm__ volatile("cmpq $6, %0\n\t"
			 "movl $2, %%eax\n\t"
			 "addr32 movq (%k1), %%rcx\n\t"
			 "adcq %%rcx, %0\n\t"
			 "addr32 movb $9, 0x10(%k1,%%eax,8)\n\t"
			 "addr32 incw 0x1fff(%k1)\n\t"
			 "movl $0x10008100, %%eax\n\t"
			 "subl %k1, %%eax\n\t"
			 "leaq -0x100(%1,%%rax), %%rcx\n\t"
			 "subq %%rcx, %0\n\t"
			 "addr32 movups -0x100(%k1,%%eax), %%xmm0\n\t" /* the sum goes round */
			 : "+r"(r) : "r"(to | 0x5500000000) : "rax", "rcx", "xmm0", "cc", "memory");
	return r;
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
	int region = argc > 3 && *argv[3] == 'r';
	if (argc < 3 || !(expected = fopen(argv[1], "w")))
		return 2;
	CHECK(mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at);
	CHECK(!region || (memtr_init() == 0 && memtr_regist(at, BYTES) == 0));
	if (!strcmp(how, "fs")) {
		for (int i = 0; i < 3; i++) {
			sum(by_fs((uint64_t)at + 16 * i - base()));
			expect_fs(16 * i);
			sum(moved((uint64_t)at + PAGE * 2 + 256 * i));
			expect(PAGE * 2 + 256 * i + 0x10, 4, "load"), expect(PAGE * 2 + 256 * i + 0x14, 4, "both");
			expect(PAGE * 2 + 256 * i + 0x90, 4, "load"), expect(PAGE * 2 + 256 * i + 0x94, 4, "store");
		}
	} else if (!strcmp(how, "short")) {
		for (int i = 0; i < 3; i++) {
			sum(of_32_bits((uint64_t)at + i * 8));
			expect(i * 8, 8, "load"), expect(i * 8 + 0x20, 1, "store"), expect(i * 8 + 0x1fff, 2, "both"), expect(0x8000, 16, "load");
		}
	} else {
		return fail(how);
	}
	fclose(expected);
	printf("%lx\n", total);
	return region ? memtr_end() : 0;
}
