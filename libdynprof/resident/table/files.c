/* See files.h. Mappings are made by system calls whose sites are watched (sites/slowpath.S), so that
 * a region is there before the call returns. There is no lock: who changes an entry has its number,
 * which he has exchanged for another.
 *
 *  - What a call has mapped nobody knows of before it returns: its region is made behind it.
 *  - What munmap gives back, or mremap leaves, may be another's at once: its region ends in front of it.
 *  - What takes the place of a mapping (MAP_FIXED, MREMAP_FIXED) ends its region behind the call.
 *  - Where a region becomes smaller, or larger in its place, the new one begins before the old one ends,
 *    as others may use it all the time; of two it is the newer one's.
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
	uint32_t of; /* whose name it has: the number of what was chosen, from 1 on */
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

/* Which of those a descriptor's file is, by what their paths lead to now; 0: none. */
static uint32_t chosen_at(uint64_t fd)
{
	struct stat is, of;
	if (failed(ask(SYS_fstat, (int)fd, &is)))
		return 0;
	for (uint32_t i = 0; i < chosen_count; i++)
		if (!failed(ask(SYS_newfstatat, AT_FDCWD, chosen[i].path, &of, 0)) && of.st_dev == is.st_dev && of.st_ino == is.st_ino)
			return i + 1;
	return 0;
}

static int try_add(uint64_t low, uint64_t high, uint32_t of)
{
	for (struct piece *p = pieces; p < pieces + DP_RG_LIVES; p++) {
		int64_t none = 0;
		if (!__atomic_compare_exchange_n(&p->number, &none, BEING, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		int64_t number = dp_region_add(low, high - low, chosen[of - 1].name, 0);
		p->low = low;
		p->high = high;
		p->of = of;
		p->pid = ask(SYS_getpid);
		__atomic_store_n(&p->number, number > 0 ? number : 0, __ATOMIC_SEQ_CST);
		return number > 0;
	}
	return 0;
}

static void add(uint64_t low, uint64_t high, uint32_t of)
{
	if (!try_add(low, high, of))
		__atomic_fetch_add(dp_region_word(DP_RG_UNMADE), 1, __ATOMIC_RELAXED);
}

static int own(const struct piece *p) { return p->pid == ask(SYS_getpid); } /* else it is the parent's, whose mapping is there */

/* Takes [low, high) from an entry, unless its region was made after that number. Returns whose it was; 0:
 * it has nothing there. */
static uint32_t cut(struct piece *p, uint64_t low, uint64_t high, int64_t last)
{
	int64_t number = __atomic_load_n(&p->number, __ATOMIC_ACQUIRE);
	if (number <= 0 || number > last || p->low >= high || p->high <= low || !__atomic_compare_exchange_n(&p->number, &number, BEING, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return 0;
	struct piece was = *p;
	if (was.low >= high || was.high <= low) { /* it has become another meanwhile */
		__atomic_store_n(&p->number, number, __ATOMIC_SEQ_CST);
		return 0;
	}
	int in_front = 0, behind = 0, is_own = own(&was);
	if (is_own) {
		in_front = was.low >= low || try_add(was.low, low, was.of);
		behind = was.high <= high || try_add(high, was.high, was.of);
		dp_region_remove(number);
	}
	__atomic_store_n(&p->number, 0, __ATOMIC_SEQ_CST);
	if (is_own && !in_front) /* there may be room now */
		add(was.low, low, was.of);
	if (is_own && !behind)
		add(high, was.high, was.of);
	return was.of;
}

enum { ALL = DP_RG_LOGS };

static uint32_t cut_all(uint64_t low, uint64_t high, int64_t last)
{
	uint32_t of = 0;
	for (struct piece *p = pieces; p < pieces + DP_RG_LIVES; p++) {
		uint32_t is = cut(p, low, high, last);
		of = is ? is : of;
	}
	return of;
}

/* What has something of [low, high), and whether that is all of it, and of this process. */
static uint32_t owner(uint64_t low, uint64_t high, int *all)
{
	uint32_t of = 0;
	*all = 0;
	for (const struct piece *p = pieces; p < pieces + DP_RG_LIVES; p++)
		if (__atomic_load_n(&p->number, __ATOMIC_ACQUIRE) > 0 && p->low < high && p->high > low) {
			of = p->of;
			*all |= p->low <= low && p->high >= high && own(p);
		}
	return of;
}

/* What is known in front of a call: that it matters; that all of its range was a region, which has ended;
 * the number of the region that was made last; whose it was. */
enum { NOTED = 1U << 31, HELD = 1U << 30, LAST = 8, OF = (1U << LAST) - 1 };
_Static_assert((uint64_t)DP_RG_LOGS << LAST <= HELD && sizeof chosen / sizeof *chosen <= OF, "a note");

/* A range is given back: its regions end. */
static uint32_t give_back(uint64_t low, uint64_t high)
{
	int all;
	uint32_t of = owner(low, high, &all);
	if (!of)
		return 0;
	cut_all(low, high, ALL);
	dp_audit_tell();
	return all ? NOTED | HELD | of : 0;
}

/* Whether an mremap makes a mapping smaller, where it is. */
static int shrinks(const uint64_t *a) { return a[1] && a[2] && pages(a[2]) <= pages(a[1]) && !(a[3] & (MREMAP_FIXED | MREMAP_DONTUNMAP)); }

static uint32_t before_mremap(const uint64_t *a)
{
	uint64_t low = a[0], high = low + pages(a[1] ? a[1] : 1), last = dp_region_get(DP_RG_NEXT);
	int all;
	if (low % DP_PAGE_SIZE || !a[2] || high < low)
		return 0;
	if (shrinks(a))
		return give_back(low + pages(a[2]), high);
	uint32_t of = owner(low, high, &all), note = NOTED | (uint32_t)(last < DP_RG_LOGS ? last : DP_RG_LOGS - 1) << LAST | of;
	if (!all || !a[1] || !(a[3] & MREMAP_MAYMOVE) || (a[3] & MREMAP_DONTUNMAP))
		return note;
	cut_all(low, high, ALL);
	dp_audit_tell();
	return note | HELD;
}

uint32_t dp_files_before(uint32_t number, const uint64_t *a)
{
	switch (dp_regions_are() ? number : 0) {
	case SYS_munmap:
		return a[0] % DP_PAGE_SIZE == 0 && a[1] ? give_back(a[0], a[0] + pages(a[1])) : 0;
	case SYS_mmap:
		return (a[3] & MAP_FIXED) || !(a[3] & MAP_ANONYMOUS) ? NOTED : 0;
	case SYS_mremap:
		return before_mremap(a);
	default:
		return 0;
	}
}

static uint32_t after_mmap(const uint64_t *a, uint64_t at)
{
	uint32_t was = a[3] & MAP_FIXED ? cut_all(at, at + pages(a[1]), ALL) : 0, is = a[3] & MAP_ANONYMOUS ? 0 : chosen_at(a[4]);
	if (is)
		add(at, at + pages(a[1]), is);
	return is | was;
}

static uint32_t after_mremap(const uint64_t *a, uint64_t at, uint32_t note)
{
	uint32_t of = note & OF, was = a[3] & MREMAP_FIXED ? cut_all(at, at + pages(a[2]), ALL) : 0;
	if (of)
		add(at, at + pages(a[2]), of);
	if (of && !(note & HELD) && a[1] && !(a[3] & MREMAP_DONTUNMAP)) /* of 0 bytes it makes another mapping, and leaves the first */
		cut_all(a[0], a[0] + pages(a[1]), (note & (HELD - 1)) >> LAST);
	return of | was;
}

void dp_files_after(uint32_t number, uint32_t note, const uint64_t *a, long result)
{
	uint32_t changed = 0;
	int smaller = number == SYS_mremap && shrinks(a);
	if (!dp_regions_are())
		return;
	if (failed(result) && (note & HELD)) {
		uint64_t from = smaller ? pages(a[2]) : 0;
		add(a[0] + from, a[0] + pages(a[1]), changed = note & OF);
	} else if (!failed(result) && number == SYS_mmap)
		changed = after_mmap(a, (uint64_t)result);
	else if (!failed(result) && number == SYS_mremap && !smaller)
		changed = after_mremap(a, (uint64_t)result, note);
	if (changed)
		dp_audit_tell();
}
