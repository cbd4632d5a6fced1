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

/* What is more than a base, an index and a displacement. */
ALONE uint64_t odd(uint64_t to, uint64_t by)
{
	uint64_t r = 5;
	__asm__ volatile("movl $2, %%eax\n\t"
			 "cmpq $6, %0\n\t"
			 "movl %%fs:0x40(%2,%%rax,8), %%ecx\n\t"
			 "adcq %%rcx, %0\n\t"
			 "movl %k1, %%ecx\n\t"
			 "pushq %%fs:0x48(%2,%%rax,8)\n\t"
			 "popq %%fs:0x58(%2,%%rax,8)\n\t"
			 "movabsb 0x10000123, %%al\n\t"
			 "movzbl %%al, %%eax\n\t"
			 "movq %1, %%rbx\n\t"
			 "movl $0x1205, %%eax\n\t"
			 "xlatb\n\t"
			 "addq %%rax, %0\n\t"
			 : "+r"(r) : "r"(to), "r"(by), "r"(0) : "rax", "rbx", "rcx", "cc", "memory");
	return r;
}

#define REPEATED(name, what) \
	ALONE uint64_t name(void *to, const void *from, uint64_t n) \
	{ \
		uint64_t r = 5, d = (uint64_t)to, s = (uint64_t)from, a = 7; \
		__asm__ volatile("cmpq $6, %0\n\t" what "adcq %%rsi, %0\n\tadcq %%rdi, %0\n\tadcq %%rcx, %0\n\tadcq %%rax, %0\n\tcld\n\t" : "+r"(r), "+D"(d), "+S"(s), "+c"(n), "+a"(a) : : "cc", "memory"); \
		return r - d - s + (uint64_t)to + (uint64_t)from; \
	}
REPEATED(movsb, "rep movsb\n\t")
REPEATED(movsq, "rep movsq\n\t")
REPEATED(stosl, "rep stosl\n\t")
REPEATED(lodsw, "rep lodsw\n\t")
REPEATED(lodsb_wrong, "repne lodsb\n\t") /* as with rep */
REPEATED(movsb_down, "std\n\trep movsb\n\t")
REPEATED(stosq_down, "std\n\trep stosq\n\t")
REPEATED(movsl_short, "addr32 rep movsl\n\t")

static void expect_rows(long to, long from, long n, int size, int reads, int writes)
{
	for (long i = 0; i < n; i++, to += size, from += size) {
		if (reads)
			expect(from, size < 0 ? -size : size, "load");
		if (writes)
			expect(to, size < 0 ? -size : size, "store");
	}
}

ALONE uint64_t bits(void *p, int64_t n)
{
	uint64_t r = 5;
	__asm__ volatile("btq %2, (%1)\n\t"
			 "adcq $0, %0\n\t"
			 "btsl %k2, 0x40(%1)\n\t"
			 "adcq %0, %0\n\t"
			 "lock btcw %w2, 0x80(%1)\n\t"
			 "adcq %0, %0\n\t"
			 "btrq $3, 0xc0(%1)\n\t"
			 : "+r"(r) : "r"(p), "r"(n) : "cc", "memory");
	return r;
}

static void expect_bits(long o, long n)
{
	expect(o + (n >> 6) * 8, 8, "load");
	expect(o + 0x40 + ((int)n >> 5) * 4, 4, "both");
	expect(o + 0x80 + ((short)n >> 4) * 2, 2, "both");
	expect(o + 0xc0, 8, "both");
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
	} else if (!strcmp(how, "odd")) {
		for (int i = 0; i < 2; i++) {
			sum(odd((uint64_t)at + 64 * i, (uint64_t)at + 64 * i - base()));
			expect(64 * i + 0x50, 4, "load"), expect(64 * i + 0x58, 8, "load"), expect(64 * i + 0x68, 8, "store"), expect(0x123, 1, "load"), expect(64 * i + 5, 1, "load");
		}
	} else if (!strcmp(how, "rep")) {
		unsigned char *outside = mmap(at - 2 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		unsigned char *to = at + PAGE + 3, *from = at + 4 * PAGE + 5;
		for (int n = 0; n < 40; n += 13) {
			sum(movsb(to, from, n)), expect_rows(to - at, from - at, n, 1, 1, 1);
			sum(movsq(to, from, n)), expect_rows(to - at, from - at, n, 8, 1, 1);
			sum(stosl(to, from, n)), expect_rows(to - at, 0, n, 4, 0, 1);
			sum(lodsw(to, from, n)), expect_rows(0, from - at, n, 2, 1, 0);
			sum(lodsb_wrong(to, from, n)), expect_rows(0, from - at, n, 1, 1, 0);
			sum(movsb_down(to, from, n)), expect_rows(to - at, from - at, n, -1, 1, 1);
			sum(stosq_down(to, from, n)), expect_rows(to - at, 0, n, -8, 0, 1);
			sum(movsl_short((void *)((uint64_t)to | 1ULL << 40), from, n | 5ULL << 32)), expect_rows(to - at, from - at, n, 4, 1, 1);
		}
		sum(movsb(at + 6 * PAGE - 7, at + 9 * PAGE - 1, 5000)), expect_rows(6 * PAGE - 7, 9 * PAGE - 1, 5000, 1, 1, 1);
		sum(movsb(outside, at + 11 * PAGE - 9, 100)), expect_rows(0, 11 * PAGE - 9, 100, 1, 1, 0);
		sum(movsb(at + 13 * PAGE - 9, outside, 100)), expect_rows(13 * PAGE - 9, 0, 100, 1, 0, 1);
		unsigned char *large = mmap(at + BYTES + PAGE, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		CHECK(large == at + BYTES + PAGE);
		sum(stosl(large, 0, 1 << 20)); /* no part of the region */
		CHECK(mprotect(at + BYTES - PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
		sum(movsb(large, at + BYTES - 100, 100)), expect_rows(0, BYTES - 100, 100, 1, 1, 0);
	} else if (!strcmp(how, "bits")) {
		static const long n[] = {0, 5, 70, 1000, -1, -500, 8191};
		for (unsigned i = 0; i < sizeof n / sizeof *n; i++)
			sum(bits(at + 3 * PAGE + 64 * i, n[i])), expect_bits(3 * PAGE + 64 * i, n[i]);
	} else {
		return fail(how);
	}
	fclose(expected);
	printf("%lx\n", total);
	return region ? memtr_end() : 0;
}
