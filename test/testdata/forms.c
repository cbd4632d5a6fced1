/* Accesses memory in ways that few programs do, in assembly, so that each access is known: address,
 * size, kind, order. It writes down each one, as "1 OFFSET SIZE KIND", to the file that its first
 * argument names. The second argument is which ways; with a third one that begins with r the memory
 * is a region, in which it has number 1. What it computes is printed. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#include "memtr.h"

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif

enum { PAGE = 4096, BYTES = 16 * PAGE };

/* The heap of a program at a fixed address begins somewhere in the first GB. */
static unsigned char *const at = (unsigned char *)0x70000000;
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
			 "movl $0x70008100, %%eax\n\t"
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
			 "movabsb 0x70000123, %%al\n\t"
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

/* With masks: what they leave out lies behind the last page, too. */
__attribute__((target("avx2"))) ALONE void masked_avx(unsigned char *p, const uint32_t *mask)
{
	__asm__ volatile("vmovdqu (%1), %%ymm1\n\t"
			 "vmaskmovps (%0), %%ymm1, %%ymm0\n\t"
			 "vmaskmovps %%xmm0, %%xmm1, 0x40(%0)\n\t"
			 "vpmaskmovq 0x80(%0), %%ymm1, %%ymm0\n\t"
			 "vmaskmovpd %%ymm0, %%ymm1, 0xc0(%0)\n\t"
			 "vpmaskmovd %%ymm0, %%ymm1, -0x3(%0)\n\t"
			 "lea 0x101(%0), %%rdi\n\t"
			 "vmaskmovdqu %%xmm1, %%xmm0\n\t"
			 "lea 0x111(%0), %%rdi\n\t"
			 "maskmovdqu %%xmm1, %%xmm0\n\t"
			 : : "r"(p), "r"(mask) : "rdi", "xmm0", "xmm1", "memory");
}

/* What each bit stands for, as one access where they follow each other. */
static void expect_mask(long o, uint64_t mask, int n, int size, const char *kind)
{
	for (int i = 0, end; i < n; i = end + 1) {
		for (end = i; end < n && mask >> end & 1; end++)
			;
		if (end > i)
			expect(o + i * size, (end - i) * size, kind);
	}
}

static uint64_t signs(const void *mask, int n, int size)
{
	uint64_t all = 0;
	for (int i = 0; i < n; i++)
		all |= (uint64_t)(((const unsigned char *)mask)[i * size + size - 1] >> 7) << i;
	return all;
}

static void expect_avx(long o, const uint32_t *mask)
{
	expect_mask(o, signs(mask, 8, 4), 8, 4, "load");
	expect_mask(o + 0x40, signs(mask, 4, 4), 4, 4, "store");
	expect_mask(o + 0x80, signs(mask, 4, 8), 4, 8, "load");
	expect_mask(o + 0xc0, signs(mask, 4, 8), 4, 8, "store");
	expect_mask(o - 3, signs(mask, 8, 4), 8, 4, "store");
	expect_mask(o + 0x101, signs(mask, 16, 1), 16, 1, "store");
	expect_mask(o + 0x111, signs(mask, 16, 1), 16, 1, "store");
}

/* Each lane. */
ALONE void lanes_avx(unsigned char *p, const int32_t *by, const int64_t *far, const uint32_t *mask)
{
	__asm__ volatile("vmovdqu (%1), %%ymm2\n\tvmovdqu (%2), %%ymm3\n\t"
			 "vmovdqu (%3), %%ymm1\n\tvpgatherdd %%ymm1, 4(%0,%%ymm2,2), %%ymm0\n\t"
			 "vmovdqu (%3), %%ymm1\n\tvgatherdpd %%ymm1, (%0,%%xmm2,1), %%ymm0\n\t"
			 "vmovdqu (%3), %%ymm1\n\tvpgatherqd %%xmm1, (%0,%%ymm3,4), %%xmm0\n\t"
			 "vmovdqu (%3), %%ymm1\n\tvpgatherqq %%xmm1, (%0,%%xmm3,1), %%xmm0\n\t"
			 : : "r"(p), "r"(by), "r"(far), "r"(mask) : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
}

static void expect_lanes(long o, const void *by, int wide, int scale, uint64_t mask, int n, int size, const char *kind)
{
	for (int i = 0; i < n; i++)
		if (mask >> i & 1)
			expect(o + (wide ? ((const int64_t *)by)[i] : ((const int32_t *)by)[i]) * scale, size, kind);
}

#define WIDE "xmm0", "xmm1", "xmm2", "xmm3", "xmm31", "k1", "k5", "memory"
__attribute__((target("avx512f,avx512bw,avx512vl"))) ALONE uint64_t masked_wide(unsigned char *p, uint64_t mask)
{
	uint64_t r = 5;
	__asm__ volatile("kmovq %2, %%k5\n\tvpxorq %%zmm31, %%zmm31, %%zmm31\n\tcmpq $6, %0\n\t"
			 "vmovdqu8 (%1), %%zmm31%{%%k5%}\n\t"
			 "vmovdqu8 %%ymm31, 0x101(%1)%{%%k5%}\n\t"
			 "vmovdqu16 0x40(%1), %%zmm31%{%%k5%}%{z%}\n\t"
			 "vmovups (%1), %%zmm0%{%%k5%}\n\t"
			 "vmovapd %%zmm31, 0xc0(%1)%{%%k5%}\n\t"
			 "vmovdqu64 0x200(%1), %%ymm1%{%%k5%}\n\t"
			 "vmovss 0x80(%1), %%xmm1%{%%k5%}\n\t"
			 "vpcompressd %%zmm31, 0x301(%1)%{%%k5%}\n\t"
			 "vexpandpd 0x401(%1), %%zmm1%{%%k5%}\n\t"
			 "vpmovdb %%zmm31, 0x501(%1)%{%%k5%}\n\t"
			 "vpmovzxwq 0x601(%1), %%zmm1%{%%k5%}\n\t"
			 "vpcmpub $0, 0x680(%1), %%zmm31, %%k1%{%%k5%}\n\t"
			 "vptestnmd 0x700(%1), %%ymm31, %%k1%{%%k5%}\n\t"
			 "vaddps 0x740(%1)%{1to16%}, %%zmm0, %%zmm0%{%%k5%}\n\t"
			 "vpaddq 0x780(%1), %%zmm31, %%zmm1%{%%k5%}\n\t"
			 "vpbroadcastd 0x7c4(%1), %%xmm1%{%%k5%}\n\t"
			 "kmovq %%k5, %%rax\n\tadcq %%rax, %0\n\t"
			 : "+r"(r) : "r"(p), "r"(mask) : "rax", "cc", WIDE);
	return r;
}

static void expect_wide(long o, uint64_t mask)
{
	uint64_t few = 0;
	expect_mask(o, mask, 64, 1, "load");
	expect_mask(o + 0x101, mask, 32, 1, "store");
	expect_mask(o + 0x40, mask, 32, 2, "load");
	expect_mask(o, mask, 16, 4, "load");
	expect_mask(o + 0xc0, mask, 8, 8, "store");
	expect_mask(o + 0x200, mask, 4, 8, "load");
	expect_mask(o + 0x80, mask, 1, 4, "load");
	few = __builtin_popcount(mask & 0xffff);
	expect_mask(o + 0x301, few ? 1 : 0, 1, few * 4, "store");
	few = __builtin_popcount(mask & 0xff);
	expect_mask(o + 0x401, few ? 1 : 0, 1, few * 8, "load");
	expect_mask(o + 0x501, mask, 16, 1, "store");
	expect_mask(o + 0x601, mask, 8, 2, "load");
	expect_mask(o + 0x680, mask, 64, 1, "load");
	expect_mask(o + 0x700, mask, 8, 4, "load");
	expect_mask(o + 0x740, (mask & 0xffff) != 0, 1, 4, "load");
	expect_mask(o + 0x780, mask, 8, 8, "load");
	expect_mask(o + 0x7c4, (mask & 15) != 0, 1, 4, "load");
}

/* Of which the mask is used up. */
__attribute__((target("avx512f,avx512bw,avx512vl"))) ALONE void lanes_wide(unsigned char *p, const int32_t *by, const int64_t *far, uint64_t mask)
{
	__asm__ volatile("vmovdqu64 (%1), %%zmm2\n\tvmovdqu64 (%2), %%zmm31\n\t"
			 "kmovq %3, %%k5\n\tvpgatherdd 4(%0,%%zmm2,2), %%zmm0%{%%k5%}\n\t"
			 "kmovq %3, %%k5\n\tvgatherqpd 8(%0,%%zmm31,1), %%zmm0%{%%k5%}\n\t"
			 "kmovq %3, %%k5\n\tvpscatterdq %%zmm0, 0x2000(%0,%%ymm2,1)%{%%k5%}\n\t"
			 "kmovq %3, %%k5\n\tvscatterqps %%ymm0, 0x2000(%0,%%zmm31,1)%{%%k5%}\n\t"
			 : : "r"(p), "r"(by), "r"(far), "r"(mask) : WIDE);
}

__attribute__((target("avx512f,avx512bw"))) ALONE uint64_t wide_end(unsigned char *p, uint64_t mask)
{
	uint64_t r;
	__asm__ volatile("kmovq %2, %%k5\n\tvmovdqu8 (%1), %%zmm0%{%%k5%}%{z%}\n\tvmovdqu8 %%zmm0, (%1)%{%%k5%}\n\tvmovq %%xmm0, %0" : "=r"(r) : "r"(p), "r"(mask) : WIDE);
	return r;
}

static int fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	return 3;
}

#define CHECK(what) do { if (!(what)) return fail(#what); } while (0)

static sigjmp_buf back;
static volatile sig_atomic_t handled, inside, wrong;
static uint64_t count, destination;

/* In front of, in the middle of, and behind the instruction; rdi is what it has by then. */
static void struck(int sig, siginfo_t *info, void *context)
{
	const greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	const unsigned char *rip = (const unsigned char *)g[REG_RIP];
	(void)info;
	if (sig == SIGSEGV) {
		uint64_t low = (uint64_t)movsb & -256UL;
		printf("fault at %d, %lld left, %llx %llx, %d\n", (uint64_t)rip - low < 4096, g[REG_RCX], g[REG_RDI], g[REG_RSI], rip[0] == 0xf3 && rip[1] == 0xa4);
		siglongjmp(back, 1);
	}
	if (rip[0] == 0xf3 && rip[1] == 0xa4) {
		inside++;
		wrong += (uint64_t)g[REG_RDI] + (uint64_t)g[REG_RCX] != destination + count;
	}
	handled++;
}

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
		CHECK(outside == at - 2 * PAGE);
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
	} else if (!strcmp(how, "masks") || !strcmp(how, "lanes")) {
		static const uint32_t mask[][8] = {{0}, {-1, -1, -1, -1, -1, -1, -1, -1}, {1u << 31, 0, 5, 0x80808080, -1, 0x7fffffff, 0, 1u << 31}, {0, 0x80000080, 0, 0, 0, 0, 0, 0}};
		static const uint64_t bits[] = {0, -1, 1, 0x8000000000000001, 0x00ff00f5a5a50ff0, 0xaaaaaaaaaaaaaaaa};
		static const int32_t by[16] = {0, 100, -8, 3, 4000, 77, 1000, 8, 9, 10, 11, -12, 13, 14, 15, 200};
		static const int64_t far[8] = {8, -16, 3000, 0, 5, 900, -7, 64};
		int wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
		unsigned char *p = at + 2 * PAGE;
		if (!__builtin_cpu_supports("avx2"))
			return 0;
		for (unsigned i = 0; i < sizeof mask / sizeof *mask; i++) {
			if (!strcmp(how, "masks")) {
				masked_avx(p, mask[i]), expect_avx(p - at, mask[i]);
				masked_avx(p - 64, mask[i]), expect_avx(p - 64 - at, mask[i]);
				continue;
			}
			lanes_avx(p, by, far, mask[i]);
			expect_lanes(p - at + 4, by, 0, 2, signs(mask[i], 8, 4), 8, 4, "load"), expect_lanes(p - at, by, 0, 1, signs(mask[i], 4, 8), 4, 8, "load");
			expect_lanes(p - at, far, 1, 4, signs(mask[i], 4, 4), 4, 4, "load"), expect_lanes(p - at, far, 1, 1, signs(mask[i], 2, 8), 2, 8, "load");
		}
		for (unsigned i = 0; wide && i < sizeof bits / sizeof *bits; i++) {
			if (!strcmp(how, "masks")) {
				sum(masked_wide(p, bits[i])), expect_wide(p - at, bits[i]);
				continue;
			}
			lanes_wide(p, by, far, bits[i]);
			expect_lanes(p - at + 4, by, 0, 2, bits[i], 16, 4, "load"), expect_lanes(p - at + 8, far, 1, 1, bits[i], 8, 8, "load");
			expect_lanes(p - at + 0x2000, by, 0, 1, bits[i], 8, 8, "store"), expect_lanes(p - at + 0x2000, far, 1, 1, bits[i], 8, 4, "store");
		}
		if (!strcmp(how, "masks")) { /* the elements that are left out have no memory */
			static const uint32_t first[8] = {-1, -1};
			p = at + BYTES - 8;
			__asm__ volatile("vmovdqu (%1), %%ymm1\n\tvmaskmovps (%0), %%ymm1, %%ymm0\n\tvpmaskmovd %%ymm0, %%ymm1, (%0)" : : "r"(p), "r"(first) : "xmm0", "xmm1", "memory");
			expect(p - at, 8, "load"), expect(p - at, 8, "store");
			if (wide) {
				sum(wide_end(p, 0xff));
				expect(p - at, 8, "load"), expect(p - at, 8, "store");
			}
		}
	} else if (!strcmp(how, "struck")) {
		struct sigaction act = {.sa_sigaction = struck, .sa_flags = SA_SIGINFO | SA_RESTART};
		struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
		CHECK(sigaction(SIGALRM, &act, 0) == 0 && sigaction(SIGSEGV, &act, 0) == 0);
		count = region ? 200 : 2000, destination = (uint64_t)at + 100;
		int n = 0;
		for (setitimer(ITIMER_REAL, &often, 0); handled < 60 && n < 200000; n++)
			movsb((void *)destination, at + PAGE, count);
		setitimer(ITIMER_REAL, &never, 0);
		for (int i = 0; i < n && region; i++)
			expect_rows(100, PAGE, 200, 1, 1, 1);
		CHECK(!wrong);
		CHECK(mprotect(at + 3 * PAGE, PAGE, PROT_NONE) == 0);
		if (sigsetjmp(back, 1) == 0)
			movsb(at + 3 * PAGE - 10, at, 30);
		expect_rows(3 * PAGE - 10, 0, 30, 1, 1, 1); /* some of which it has not done */
		if (sigsetjmp(back, 1) == 0)
			movsb(at + BYTES - PAGE, at + 2 * PAGE, ~0UL); /* a wild count, which ends soon */
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
