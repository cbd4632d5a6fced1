/* See wanted.h. Sanitizers have tables for all memory, at addresses that their instrumented code has in
 * it. Those of C export what they have; Go's is linked into the program without a name, but a Go
 * program says how it was built. */
#define _GNU_SOURCE
#include <link.h>

#include "base/own.h"
#include "wanted.h"

extern void __asan_init(void) __attribute__((weak, visibility("default")));
extern void __tsan_init(void) __attribute__((weak, visibility("default")));
extern void __msan_init(void) __attribute__((weak, visibility("default")));
extern void dfsan_set_label(void) __attribute__((weak, visibility("default")));

static const struct dp_wanted
	nobody = {~0ULL, 0},
	asan = {0, "AddressSanitizer needs their place"}, /* 0x7fff8000, as we do */
	tsan = {0x8000000000, "ThreadSanitizer needs their place; --heat=pages and --heat=who do with less"},
	race = {0xc000000000, "Go's race detector needs their place; --heat=pages and --heat=who do with less"},
	msan = {0x10000000000, "MemorySanitizer needs their place; --heat=pages and --heat=who do with less"},
	dfsan = {0x10000000000, "DataFlowSanitizer needs their place; --heat=pages and --heat=who do with less"};

/* An unsigned number in bytes of seven bits, as Go writes them. */
static uint64_t number_at(const uint8_t **at, const uint8_t *end)
{
	uint64_t n = 0;
	for (unsigned shift = 0; *at < end && shift < 63; shift += 7) {
		uint8_t b = *(*at)++;
		n |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return n;
	}
	return 0;
}

/* Whether Go's build information, behind its magic, has that: 16 bytes more, and two texts, each
 * behind its length (debug/buildinfo). */
static int is_raced(const uint8_t *info, const uint8_t *end)
{
	static const char raced[] = "\nbuild\t-race=true\n";
	enum { INLINE = 2, HEAD = 32, N = sizeof raced - 1 };
	if (!(info[15] & INLINE))
		return 0;
	const uint8_t *at = info + HEAD;
	for (int i = 0; i < 2; i++) {
		uint64_t n = number_at(&at, end);
		if (n > (uint64_t)(end - at))
			return 0;
		if (i == 0)
			at += n;
		else
			end = at + n;
	}
	for (; at + N <= end; at++)
		if (same_bytes(at, raced, N))
			return 1;
	return 0;
}

/* What a Go program says of its build is in memory that is written, at a multiple of 16. */
static int is_raced_in(uint64_t low, uint64_t high)
{
	static const char magic[] = "\xff Go buildinf:";
	for (uint64_t at = (low + 15) & ~15ULL; at + 32 <= high; at += 16)
		if (same_bytes((const void *)at, magic, sizeof magic - 1))
			return is_raced((const uint8_t *)at, (const uint8_t *)high);
	return 0;
}

static int is_of_go(const struct dl_phdr_info *info)
{
	static const char owner[4] = "Go\0";
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *p = &info->dlpi_phdr[i];
		const Elf64_Nhdr *n = (const Elf64_Nhdr *)(info->dlpi_addr + p->p_vaddr);
		if (p->p_type == PT_NOTE && p->p_memsz >= sizeof *n + sizeof owner && n->n_namesz == sizeof owner && same_bytes(n + 1, owner, sizeof owner))
			return 1;
	}
	return 0;
}

static int see_go(struct dl_phdr_info *info, size_t bytes, void *found)
{
	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum && is_of_go(info); i++) {
		const Elf64_Phdr *p = &info->dlpi_phdr[i];
		uint64_t low = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && (p->p_flags & PF_W) && is_raced_in(low, low + p->p_filesz))
			*(int *)found = 1;
	}
	return 0;
}

struct dp_wanted dp_wanted_place(dp_iterate *iterate)
{
	int go = 0;
	if (__asan_init)
		return asan;
	if (__tsan_init)
		return tsan;
	iterate(see_go, &go);
	if (go)
		return race;
	return __msan_init ? msan : dfsan_set_label ? dfsan : nobody;
}
