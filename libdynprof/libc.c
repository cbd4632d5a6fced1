/* libc's dl_iterate_phdr and sbrk, in the target. A program, or a library that it preloads,
 * may define those names itself; what it defines must not run before its own
 * constructors, and need not tell of all objects, or of libc's heap. So libc's is looked up in libc
 * (gABI, "Dynamic Section"; DT_GNU_HASH as glibc's dl-lookup reads it).
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/ctl.h"
#include "base/pages.h"
#include "base/raw.h"
#include "session.h"

struct symbols {
	const Elf64_Sym *table;
	const char *names;
	const uint32_t *hash; /* buckets, first symbol, words of the filter, a shift */
};

static struct symbols symbols_of(const struct link_map *l)
{
	struct symbols s = {0};
	for (const Elf64_Dyn *d = l->l_ld; d && d->d_tag != DT_NULL; d++) {
		uint64_t v = d->d_un.d_ptr < l->l_addr ? d->d_un.d_ptr + l->l_addr : d->d_un.d_ptr;
		switch (d->d_tag) {
		case DT_SYMTAB: s.table = (const Elf64_Sym *)v; break;
		case DT_STRTAB: s.names = (const char *)v; break;
		case DT_GNU_HASH: s.hash = (const uint32_t *)v; break;
		}
	}
	return s;
}

static uint32_t hash_of(const char *name)
{
	uint32_t h = 5381;
	while (*name)
		h = h * 33 + (uint8_t)*name++;
	return h;
}

/* The address of what l defines; 0 if it has none of that name and type (STT_FUNC, …). */
static uint64_t defined_in(const struct link_map *l, const char *name, int type)
{
	struct symbols s = symbols_of(l);
	if (!s.table || !s.names || !s.hash || !s.hash[0])
		return 0;
	uint32_t h = hash_of(name);
	const uint32_t *buckets = s.hash + 4 + 2 * s.hash[2], *chain = buckets + s.hash[0];
	uint32_t i = buckets[h % s.hash[0]];
	if (i < s.hash[1])
		return 0;
	for (;; i++) {
		uint32_t there = chain[i - s.hash[1]];
		if ((there | 1) == (h | 1) && s.table[i].st_shndx != SHN_UNDEF &&
		    ELF64_ST_TYPE(s.table[i].st_info) == type && same_text(s.names + s.table[i].st_name, name))
			return l->l_addr + s.table[i].st_value;
		if (there & 1)
			return 0; /* the last of its bucket */
	}
}

static int is_libc(const char *path)
{
	const char *base = path;
	for (; path && *path; path++)
		if (*path == '/')
			base = path + 1;
	return base && same_text(base, "libc.so.6");
}

/* libc's own function of that name; 0 if it is not found. */
static uint64_t libc_function(const struct r_debug *r, const char *name)
{
	for (const struct link_map *l = r ? r->r_map : 0; l; l = l->l_next)
		if (is_libc(l->l_name)) {
			uint64_t found = defined_in(l, name, STT_FUNC);
			if (found)
				return found;
		}
	return 0;
}

/* Not 0 in the copy of this library that counts. It is exported for other copies: an
 * LD_PRELOAD of the user's and that of hotspots run may name two. */
__attribute__((visibility("default"))) int dynprof_here;

int dp_another_counts(const struct r_debug *r)
{
	for (const struct link_map *l = r ? r->r_map : 0; l; l = l->l_next) {
		const int *here = (const int *)defined_in(l, "dynprof_here", STT_OBJECT);
		if (here && here != &dynprof_here && *here)
			return 1;
	}
	dynprof_here = 1;
	return 0;
}

dp_iterate *dp_libc_iterate(const struct r_debug *r)
{
	uint64_t found = libc_function(r, "dl_iterate_phdr");
	return found ? (dp_iterate *)found : dl_iterate_phdr;
}

typedef void *grow(intptr_t by);

/* sbrk may be called by anybody: malloc(3) goes on behind what another took. Without
 * libc's it would cut off, at its next call, what the system call alone had taken.
 * A limit of data would count the arenas in. */
uint64_t dp_heap_end(const struct r_debug *r)
{
	struct rlimit limit = {0};
	grow *libc_sbrk = (grow *)libc_function(r, "sbrk");
	if (!libc_sbrk || raw(SYS_prlimit64, 0, RLIMIT_DATA, 0, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY)
		return 0;
	uint64_t end = (uint64_t)raw(SYS_brk, 0);
	return (uint64_t)libc_sbrk(0) == end ? end : 0;
}

int dp_lift_heap(struct dp_ctl *ctl, const struct r_debug *r)
{
	uint64_t from = pages(ctl->heap_end), size = ctl->heap_to - from;
	int before = errno;
	grow *libc_sbrk = (grow *)libc_function(r, "sbrk");
	int moved = (uint64_t)libc_sbrk((intptr_t)(ctl->heap_to - ctl->heap_end)) == ctl->heap_end;
	errno = before;
	if (!moved || failed(raw(SYS_mmap, from, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)))
		return 0;
	ctl->held = from;
	ctl->held_size = size;
	return 1;
}
