/* A library to be preloaded that counts the blocks that the executable itself asks malloc for, and their bytes,
 * and how many of its calls give one back. It says so at the end, on stderr. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uintptr_t low, high;
static unsigned long blocks, bytes;
static void *(*next_malloc)(size_t), *(*next_realloc)(void *, size_t), *(*next_calloc)(size_t, size_t);

static int executable(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size, (void)data;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			high = low + info->dlpi_phdr[i].p_memsz;
		}
	return 1;
}

static char early[1 << 16];
static size_t used;

static void look_up(void)
{
	if (next_realloc)
		return;
	next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
	next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
	dl_iterate_phdr(executable, 0);
}

static void count(void *block, size_t n, void *back)
{
	if (block && (uintptr_t)back - low < high - low) {
		__atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&bytes, n, __ATOMIC_RELAXED);
	}
}

void *malloc(size_t n)
{
	look_up();
	void *p = next_malloc(n);
	count(p, n, __builtin_return_address(0));
	return p;
}

void *calloc(size_t m, size_t n)
{
	if (!next_malloc && (used += m * n) < sizeof early) /* dlsym asks for it */
		return early + used - m * n;
	look_up();
	void *p = next_calloc(m, n);
	count(p, m * n, __builtin_return_address(0));
	return p;
}

void *realloc(void *old, size_t n)
{
	look_up();
	void *p = next_realloc(old, n);
	count(p, n, __builtin_return_address(0));
	return p;
}

void free(void *p)
{
	static void (*next)(void *);
	if (!next)
		next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	if ((char *)p < early || (char *)p >= early + sizeof early)
		next(p);
}

__attribute__((destructor)) static void say(void) { fprintf(stderr, "asked %lu %lu\n", blocks, bytes); }
