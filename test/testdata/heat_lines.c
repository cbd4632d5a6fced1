/* Touches bytes that are known, and says which: by their places behind BASE, with how many there are. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 64 << 12 };

static unsigned char *base = (unsigned char *)0x200100000000;

/* Each touch is of a page of its own. */
static long page;

static unsigned char *next(long offset) { return base + ++page * 4096 + offset; }

static void says(const char *what, const void *at, long bytes) { printf("touch %ld %ld %s\n", (long)((const unsigned char *)at - base), bytes, what); }

typedef long long vector __attribute__((vector_size(16), aligned(1)));
typedef uint64_t word __attribute__((aligned(1)));

__attribute__((noinline)) static void store(word *to, uint64_t value) { *to = value; }
__attribute__((noinline)) static uint64_t load(const word *from) { return *from; }
__attribute__((noinline)) static void add(unsigned char *to) { *to += 7; }
__attribute__((noinline)) static long long sum_vector(const vector *p)
{
	vector v = *p;
	return v[0] + v[1];
}
__attribute__((noinline)) static void store_vector(vector *p, long long x) { *p = (vector){x, x}; }

/* Fields by one register, in one line or in several. */
struct fields {
	uint64_t a, b;
	char between[40];
	uint64_t c;
	char far[2000];
	uint64_t d;
} __attribute__((packed));

__attribute__((noinline)) static uint64_t near_fields(const struct fields *f) { return f->a + f->b + f->c; }
__attribute__((noinline)) static uint64_t far_fields(const struct fields *f) { return f->a + f->d; }
__attribute__((noinline)) static uint64_t sum(const unsigned char *p, long n, long step)
{
	uint64_t s = 0;
	for (long i = 0; i < n; i++)
		s += p[i * step];
	return s;
}

/* 512 bytes by one instruction. */
__attribute__((noinline)) static void save(void *to) { __asm__ volatile("fxsave (%0)" : : "r"(to) : "memory"); }
__attribute__((noinline)) static void restore(const void *from) { __asm__ volatile("fxrstor (%0)" : : "r"(from) : "memory"); }

/* By the stack pointer, which moves. */
__attribute__((noinline)) static uint64_t stack(unsigned char *top)
{
	uint64_t value = 0x1234;
	__asm__ volatile("movq %%rsp, %%r8\n\t"
			 "movq %1, %%rsp\n\t"
			 "pushq %0\n\t"
			 "subq $0x78, %%rsp\n\t"
			 "movq %0, (%%rsp)\n\t"
			 "movq 0x78(%%rsp), %0\n\t"
			 "movq %%r8, %%rsp\n\t"
			 : "+r"(value)
			 : "r"(top)
			 : "r8", "memory");
	return value;
}

int main(void)
{
	if (mmap(base, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != base)
		return 1;
	uint64_t total = 0;
	static const long offsets[] = {0, 1, 7, 8, 48, 56, 57, 60, 63, 64, 100, 127, 128, 4000};
	enum { COUNT = sizeof offsets / sizeof *offsets };
	for (int i = 0; i < COUNT; i++) {
		void *p = next(offsets[i]);
		store(p, 5);
		says("-w", p, 8);
	}
	for (int i = 0; i < COUNT; i++) {
		void *p = next(offsets[i]);
		total += (uint64_t)sum_vector(p);
		says("r-", p, 16);
	}
	void *p = next(4096 - 3); /* over the end of the page */
	total += load(p);
	says("r-", p, 8);
	page++;
	p = next(4096 - 9);
	store_vector(p, 3);
	says("-w", p, 16);
	page++;
	p = next(63);
	add(p);
	says("rw", p, 1);
	for (int i = 0; i < 64; i += 21) {
		struct fields *f = (struct fields *)next(i);
		total += near_fields(f);
		says("r-", f, 16);
		says("r-", (char *)f + 56, 8);
		f = (struct fields *)next(i);
		total += far_fields(f);
		says("r-", f, 8);
		says("r-", (char *)f + offsetof(struct fields, d), 8);
	}
	p = next(10);
	total += sum(p, 30, 100);
	for (int i = 0; i < 30; i++)
		says("r-", (char *)p + 100 * i, 1);
	p = next(16);
	save(p);
	says("-w", p, 512);
	restore(p);
	says("r-", p, 512);
	p = next(1024);
	total += stack(p);
	says("rw", (char *)p - 8, 8);
	says("-w", (char *)p - 128, 8);
	printf("pages %ld, total %lu\n", page, (unsigned long)total);
	return page * 4096 >= SIZE;
}
