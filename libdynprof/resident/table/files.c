/* See files.h. Mappings are made by system calls whose sites are watched (sites/slowpath.S), so that
 * a region is there before the call returns. There is no lock: who changes an entry has its number,
 * which he has exchanged for another.
 *
 *  - What a call has mapped nobody knows of before it returns: its region is made behind it.
 *  - What munmap gives back may be another's at once: its region ends in front of it.
 *  - What takes the place of a mapping (MAP_FIXED, mremap) ends its region behind the call.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/filters.h"
#include "base/layout.h"
#include "base/mapped.h"
#include "base/pages.h"
#include "base/stub.h"
#include "table/audit.h"
#include "table/files.h"
#include "table/pages.h"
#include "table/regions.h"

uint32_t dp_files_are;

static struct chosen {
	char path[512], name[DP_LOG_SIZE - DP_LOG_NAME];
} chosen[16];
static uint32_t chosen_count;

/* A region that is a mapping, as this process has made it. */
static struct piece {
	int64_t number; /* 0: there is none; BEING: it is being changed */
	uint64_t low, high;
	const char *name;
	long pid;
} pieces[DP_RG_LIVES];

enum { BEING = -1 };

int dp_files_choose(const char *path, size_t n, const char *name)
{
	struct chosen *c = &chosen[chosen_count];
	if (chosen_count == sizeof chosen / sizeof *chosen || n >= sizeof c->path)
		return 0;
	text_copy(c->path, n + 1, path);
	text_copy(c->name, sizeof c->name, name);
	chosen_count++;
	dp_files_are = 1;
	return 1;
}

/* The name of a descriptor's file, if it is one of those; by what their paths lead to now. */
static const char *name_of(uint64_t fd)
{
	struct stat is, of;
	if (failed(ask(SYS_fstat, (int)fd, &is)))
		return 0;
	for (uint32_t i = 0; i < chosen_count; i++)
		if (!failed(ask(SYS_newfstatat, AT_FDCWD, chosen[i].path, &of, 0)) && of.st_dev == is.st_dev && of.st_ino == is.st_ino)
			return chosen[i].name;
	return 0;
}

static void add(uint64_t low, uint64_t high, const char *name)
{
	for (struct piece *p = pieces; low < high && p < pieces + DP_RG_LIVES; p++) {
		int64_t none = 0;
		if (!__atomic_compare_exchange_n(&p->number, &none, BEING, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		int64_t number = dp_region_add(low, high - low, name, 0);
		p->low = low;
		p->high = high;
		p->name = name;
		p->pid = ask(SYS_getpid);
		__atomic_store_n(&p->number, number > 0 ? number : 0, __ATOMIC_SEQ_CST);
		if (number > 0)
			return;
		break;
	}
	if (low < high)
		__atomic_fetch_add(dp_region_word(DP_RG_UNMADE), 1, __ATOMIC_RELAXED);
}

/* Takes [low, high) from an entry. Returns its name, which others have, too; 0: it has nothing there. */
static const char *cut(struct piece *p, uint64_t low, uint64_t high)
{
	int64_t number = __atomic_load_n(&p->number, __ATOMIC_ACQUIRE);
	if (number <= 0 || p->low >= high || p->high <= low || !__atomic_compare_exchange_n(&p->number, &number, BEING, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return 0;
	struct piece was = *p;
	if (was.low >= high || was.high <= low) { /* it has become another meanwhile */
		__atomic_store_n(&p->number, number, __ATOMIC_SEQ_CST);
		return 0;
	}
	int own = was.pid == ask(SYS_getpid); /* else it is the parent's, whose mapping is there */
	if (own)
		dp_region_remove(number);
	__atomic_store_n(&p->number, 0, __ATOMIC_SEQ_CST);
	if (own && was.low < low)
		add(was.low, low, was.name);
	if (own && was.high > high)
		add(high, was.high, was.name);
	return was.name;
}

static const char *cut_all(uint64_t low, uint64_t size)
{
	const char *name = 0;
	for (struct piece *p = pieces; p < pieces + DP_RG_LIVES; p++) {
		const char *is = cut(p, low, low + pages(size));
		name = is ? is : name;
	}
	return name;
}

int dp_files_before(uint32_t number, const uint64_t *a)
{
	switch (dp_regions_are() ? number : 0) {
	case SYS_munmap:
		if (a[0] % DP_PAGE_SIZE == 0 && a[1] && cut_all(a[0], a[1]))
			dp_audit_tell();
		return 0;
	case SYS_mmap:
		return (a[3] & MAP_FIXED) || !(a[3] & MAP_ANONYMOUS);
	default:
		return number == SYS_mremap;
	}
}

void dp_files_after(uint32_t number, const uint64_t *a, long result)
{
	const char *was = 0, *is = 0;
	if (failed(result) || !dp_regions_are())
		return;
	uint64_t at = (uint64_t)result, size = number == SYS_mmap ? a[1] : a[2];
	if (number == SYS_mremap) { /* of 0 bytes it makes another mapping, and leaves the first */
		is = was = a[1] ? cut_all(a[0], a[1]) : 0;
		cut_all(at, size);
	} else {
		was = a[3] & MAP_FIXED ? cut_all(at, size) : 0;
		is = a[3] & MAP_ANONYMOUS ? 0 : name_of(a[4]);
	}
	if (is)
		add(at, at + pages(size), is);
	if (is || was)
		dp_audit_tell();
}
