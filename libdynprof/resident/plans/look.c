/* What an object's mapped bytes tell without a planner: how much code it has, and
 * whether that may take the GS segment. Only what sets the base is looked
 * for: who reads by way of a base that nobody sets faults, with us or without.
 *
 *	f3 [REX] 0f ae d8..df	wrgsbase (SDM volume 2, WRFSBASE/WRGSBASE)
 *	mov $158,%eax ... syscall	arch_prctl, unless the number of another wish
 *				than ARCH_SET_GS is loaded near
 *
 * Neither is found in 700 MB of Debian's libraries but where it is meant. A load of
 * the selector is two bytes, which many have by chance: it is not looked for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <sys/mman.h>

#include "base/filters.h"
#include "base/layout.h"
#include "base/mapped.h"
#include "base/pages.h"
#include "plans/look.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
enum { NEAR = 64, SET_GS = 0x01, SET_FS = 0x02, GET_GS = 0x04 };

/* A run of code. */
struct code {
	const uint8_t *at, *end;
};

/* Whether the ae at p is that of a wrgsbase. Other prefixes may stand between. */
static int is_wrgsbase(const struct code *c, const uint8_t *p)
{
	enum { MOST = 5 };
	if (p - c->at < 2 || c->end - p < 2 || p[-1] != 0x0f || (p[1] & 0xf8) != 0xd8)
		return 0;
	const uint8_t *low = p - c->at > MOST ? p - MOST : c->at;
	p -= 2;
	if ((*p & 0xf0) == 0x40 && p > low)
		p--;
	for (; p >= low; p--) {
		if (*p == 0xf3)
			return 1;
		if (*p != 0x66 && *p != 0x67 && *p != 0x2e && *p != 0x3e && *p != 0x26 && *p != 0x36 && *p != 0x64 && *p != 0x65)
			return 0;
	}
	return 0;
}

/* Whether the 9e at p is loaded into eax, as the number of arch_prctl. */
static int loads_number(const struct code *c, const uint8_t *p)
{
	if (p - c->at < 1 || c->end - p < 4 || p[1] || p[2] || p[3])
		return 0;
	return p[-1] == 0xb8 || (p - c->at >= 2 && p[-2] == 0xc7 && p[-1] == 0xc0);
}

/* Whether what arch_prctl shall do is loaded near the system call at p, and is not
 * to set the GS base. */
static int is_other_wish(const struct code *c, const uint8_t *p)
{
	const uint8_t *from = p - c->at > NEAR ? p - NEAR : c->at;
	int other = 0;
	for (; from + 4 <= p; from++)
		if (from[1] == 0x10 && !from[2] && !from[3]) {
			if (from[0] == SET_GS)
				return 0;
			other |= from[0] >= SET_FS && from[0] <= GET_GS;
		}
	return other;
}

/* Whether the number at p is that of a system call which may set the base. */
static int is_arch_prctl(const struct code *c, const uint8_t *p)
{
	if (!loads_number(c, p))
		return 0;
	for (const uint8_t *q = p + 4; q < p + NEAR && q + 2 <= c->end; q++)
		if (q[0] == 0x0f && q[1] == 0x05)
			return !is_other_wish(c, q);
	return 0;
}

static int sets_gs(const uint8_t *at, uint64_t size)
{
	struct code c = {at, at + size};
	for (const uint8_t *p = at; p < c.end; p++)
		if ((*p == 0xae && is_wrgsbase(&c, p)) || (*p == 0x9e && is_arch_prctl(&c, p)))
			return 1;
	return 0;
}

/* Whether a page is mapped, asked by system calls that dlopen has just made: a
 * seccomp filter from before the program's start may kill at others. */
static int is_mapped(uint64_t page)
{
	long got = ask(SYS_mmap, page, DP_PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (!failed(got))
		ask(SYS_munmap, got, DP_PAGE_SIZE);
	return got == -EEXIST;
}

/* The program headers behind an ELF header that may be at a mapped page; 0: it is not there, or is
 * another object's. */
static const Elf64_Phdr *headers_at(uint64_t at, const struct link_map *l, int *n)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)at;
	if (!same_bytes(eh->e_ident, ELFMAG, SELFMAG) || eh->e_phoff > DP_PAGE_SIZE || eh->e_phnum > (DP_PAGE_SIZE - eh->e_phoff) / sizeof(Elf64_Phdr))
		return 0;
	const Elf64_Phdr *ph = (const Elf64_Phdr *)((const uint8_t *)eh + eh->e_phoff);
	for (*n = 0; *n < eh->e_phnum; ++*n)
		if (ph[*n].p_type == PT_DYNAMIC && l->l_addr + ph[*n].p_vaddr == (uint64_t)l->l_ld) {
			*n = eh->e_phnum;
			return ph;
		}
	return 0;
}

/* The program headers, from the ELF header that is mapped at the object's base, as
 * it is in every library that ld makes by itself; 0 if they are not there. */
static const Elf64_Phdr *headers_of(const struct link_map *l, int *n)
{
	char magic[SELFMAG]; /* of a library that was linked for another address, there may be a guard page */
	if (!l->l_addr || l->l_addr % DP_PAGE_SIZE || !is_mapped(l->l_addr) || !dp_read_quietly(magic, (const void *)l->l_addr, sizeof magic))
		return 0;
	return headers_at(l->l_addr, l, n);
}

/* And of a library that was linked for another address than 0, whose first page is behind its base. */
static const Elf64_Phdr *headers_behind(const struct link_map *l, int *n)
{
	enum { MANY = 16384 };
	uint64_t at = (uint64_t)l->l_ld & ~(uint64_t)(DP_PAGE_SIZE - 1);
	char magic[SELFMAG];
	for (int pages = 0; pages < MANY && at > l->l_addr; pages++, at -= DP_PAGE_SIZE) {
		const Elf64_Phdr *ph = 0;
		if (dp_read_quietly(magic, (const void *)at, SELFMAG) && same_bytes(magic, ELFMAG, SELFMAG) && (ph = headers_at(at, l, n)))
			return ph;
	}
	return 0;
}

static int is_code(const Elf64_Phdr *p) { return p->p_type == PT_LOAD && (p->p_flags & PF_X); }

uint64_t dp_text_of(const struct link_map *l)
{
	enum { GUESS = 64 << 20 };
	int n;
	uint64_t text = 0;
	const Elf64_Phdr *ph = headers_of(l, &n);
	if (!ph)
		return GUESS;
	for (int i = 0; i < n; i++)
		if (is_code(&ph[i]))
			text += dp_pages_of(&ph[i]);
	return text;
}

void dp_extent_of(struct dp_object *o)
{
	const struct link_map l = {.l_addr = o->bias, .l_ld = (void *)o->dynamic};
	int n = 0;
	const Elf64_Phdr *ph = headers_of(&l, &n);
	if (!ph)
		ph = headers_behind(&l, &n);
	uint64_t low = ~0ULL, high = 0;
	for (int i = 0; ph && i < n; i++) {
		if (ph[i].p_type != PT_LOAD)
			continue;
		uint64_t from = o->bias + ph[i].p_vaddr, to = from + ph[i].p_memsz;
		low = from < low ? from : low;
		high = to > high ? to : high;
	}
	if (low < high)
		o->low = low, o->high = high;
}

/* Whether pages can be read. Those behind the end of a file that is shorter than it
 * says raise SIGBUS, of which the kernel tells if asked. */
static int can_read(uint64_t at, uint64_t size)
{
	uint64_t page = at & ~(uint64_t)(DP_PAGE_SIZE - 1);
	long ret = ask(SYS_madvise, page, pages(at + size) - page, MADV_POPULATE_READ);
	return ret == 0 || ret == -EINVAL || ret == REFUSED; /* it cannot tell */
}

uint32_t dp_gs_of(const struct link_map *l, int careful)
{
	int n;
	const Elf64_Phdr *ph = headers_of(l, &n);
	if (!ph)
		return DP_MISSED_UNSEEN;
	for (int i = 0; i < n; i++) {
		uint64_t at = l->l_addr + ph[i].p_vaddr;
		if (!is_code(&ph[i]))
			continue;
		if (!(ph[i].p_flags & PF_R) || (!careful && !can_read(at, ph[i].p_filesz)))
			return DP_MISSED_UNSEEN;
		if (sets_gs((const uint8_t *)at, ph[i].p_filesz))
			return DP_MISSED_USES_GS;
	}
	return 0;
}
