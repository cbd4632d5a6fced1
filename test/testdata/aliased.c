/* Text that is mapped executable a second time: aliased HOW. Functions run 1000
 * times where they are, and 500 times by the alias.
 *
 *	file	the segment of text, from the file
 *	image	all segments, from the file, as far from each other as they are
 *	place	a copy takes the place of the text, as for large pages
 *	copy	a function is copied as data, and the copy runs
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HERE = 1000, ALIAS = 500, PAGE = 4096 };

typedef long function(long);

__attribute__((noinline, noipa)) long leaf(long x) { return x * 3 + 1; }

__attribute__((noinline, noipa)) long loop(long x)
{
	long sum = 0;
	for (long i = 0; i < x % 7; i++)
		sum += i ^ x;
	return sum;
}

__attribute__((noinline, noipa)) long twice(long x) { return leaf(x) + loop(x); }

static long kept = 5;

__attribute__((noinline, noipa)) long keep(long x) { return kept += x; }

static struct image {
	uintptr_t base, low, high; /* low and high of the text */
	size_t offset, size;	   /* of the text in the file; of the image */
	ElfW(Phdr) phdr[16];
	int count;
} self;

static int look(struct dl_phdr_info *i, size_t size, void *arg)
{
	(void)size, (void)arg;
	self.base = i->dlpi_addr;
	self.count = i->dlpi_phnum < 16 ? i->dlpi_phnum : 16;
	memcpy(self.phdr, i->dlpi_phdr, self.count * sizeof *self.phdr);
	for (int k = 0; k < self.count; k++) {
		const ElfW(Phdr) *p = &self.phdr[k];
		if (p->p_type != PT_LOAD)
			continue;
		self.size = p->p_vaddr + p->p_memsz;
		if (p->p_flags & PF_X) {
			self.low = (self.base + p->p_vaddr) & -PAGE;
			self.high = (self.base + p->p_vaddr + p->p_memsz + PAGE - 1) & -PAGE;
			self.offset = p->p_offset & -PAGE;
		}
	}
	return 1; /* the executable is the first */
}

static void *must(void *at)
{
	if (at == MAP_FAILED) {
		perror("aliased");
		exit(1);
	}
	return at;
}

/* Where the alias of what is at this->base begins. */
static uintptr_t alias(const char *how)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	size_t text = self.high - self.low;
	if (!strcmp(how, "file"))
		return self.base + (uintptr_t)must(mmap(0, text, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, self.offset)) - self.low;
	if (!strcmp(how, "place")) {
		char *copy = must(mmap(0, text, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		memcpy(copy, (void *)self.low, text);
		mprotect(copy, text, PROT_READ | PROT_EXEC);
		must(mremap(copy, text, text, MREMAP_MAYMOVE | MREMAP_FIXED, self.low));
		return self.base;
	}
	if (!strcmp(how, "copy")) {
		char *copy = must(mmap(0, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		memcpy(copy, (void *)leaf, 32);
		return self.base + (uintptr_t)copy - (uintptr_t)leaf;
	}
	char *all = must(mmap(0, self.size + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	for (int k = 0; k < self.count; k++) {
		const ElfW(Phdr) *p = &self.phdr[k];
		size_t lead = p->p_vaddr % PAGE;
		int prot = (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) | (p->p_flags & PF_X ? PROT_EXEC : 0);
		if (p->p_type == PT_LOAD)
			must(mmap(all + p->p_vaddr - lead, p->p_filesz + lead, prot, MAP_PRIVATE | MAP_FIXED, fd, p->p_offset - lead));
	}
	return (uintptr_t)all;
}

int main(int argc, char **argv)
{
	(void)argc;
	dl_iterate_phdr(look, 0);
	uintptr_t base = alias(argv[1]);
	static function *const functions[] = {leaf, loop, twice, keep};
	static const char *const names[] = {"leaf", "loop", "twice", "keep"};
	int last = !strcmp(argv[1], "copy") ? 1 : !strcmp(argv[1], "file") ? 3 : 4;
	for (int k = 0; k < last; k++) {
		function *there = (function *)((uintptr_t)functions[k] - self.base + base);
		long here = 0, sum = 0;
		for (int i = 0; i < HERE; i++)
			here += functions[k](i);
		for (int i = 0; i < ALIAS; i++)
			sum += there(i);
		printf("%s %ld %ld\n", names[k], here, sum);
	}
	return 0;
}
