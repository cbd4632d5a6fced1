/* libc's dl_iterate_phdr, in the target. A program, or a library that it preloads,
 * may define that name itself; what it defines must not run before its own
 * constructors, and need not tell of all objects. So libc's is looked up in libc
 * (gABI, "Dynamic Section"; DT_GNU_HASH as glibc's dl-lookup reads it).
 */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>

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

/* The address of a function that l defines; 0 if it has none of that name. */
static uint64_t function_in(const struct link_map *l, const char *name)
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
		    ELF64_ST_TYPE(s.table[i].st_info) == STT_FUNC && same_text(s.names + s.table[i].st_name, name))
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

dp_iterate *dp_libc_iterate(const struct r_debug *r)
{
	for (const struct link_map *l = r ? r->r_map : 0; l; l = l->l_next)
		if (is_libc(l->l_name)) {
			uint64_t found = function_in(l, "dl_iterate_phdr");
			if (found)
				return (dp_iterate *)found;
		}
	return dl_iterate_phdr;
}
