/* See heat.h. Children that are forked have the same shadow. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cpu.h"
#include "base/ctl.h"
#include "base/kept.h"
#include "base/lock.h"
#include "base/mapped.h"
#include "base/own.h"
#include "base/pages.h"
#include "base/sandbox.h"
#include "base/state.h"
#include "base/stub.h"
#include "rows/space.h"
#include "table/audit.h"
#include "table/heat.h"
#include "table/held.h"
#include "table/regions.h"
#include "table/tracing.h"

/* Behind the shadow the file has two texts of /proc/self/smaps, as they were at the start and
 * at the end, each behind its length, which is stored last, and of which table it is. */
struct text {
	uint64_t length; /* 0: there is none */
	uint8_t table[16];
	char bytes[DP_SHADOW_TEXT - DP_SH_CHARS];
};
_Static_assert(offsetof(struct text, table) == DP_SH_TABLE && offsetof(struct text, bytes) == DP_SH_CHARS, "texts");

enum { TEXTS = 2 };

static struct text *texts; /* 0: there is no shadow */
static uint64_t first;	   /* of what is mapped: with regions it is a page in front, of theirs */
static uint64_t size;	   /* bytes from DP_SHADOW on */
static uint64_t granule;   /* bits of an address within one */
static uint64_t threads;   /* that have a shadow each, or 1 */
static uint64_t each;	   /* bytes that it has of a granule */
static uint64_t before;	   /* programs */
static int has_regions, sandboxed;
uint32_t dp_shadowed HIDDEN; /* 1: there is one; slowpath.S looks at it */

static void note_maps(struct text *t)
{
	long fd = dp_open_own("smaps", O_RDONLY), n = 1;
	uint64_t length = 0;
	if (failed(fd))
		return;
	while (length < sizeof t->bytes && !failed(n = ask(SYS_read, fd, t->bytes + length, sizeof t->bytes - length)) && n > 0)
		length += (uint64_t)n;
	ask(SYS_close, fd);
	__atomic_store_n(&t->length, length, __ATOMIC_RELEASE);
}

static uint64_t shadow_of(uint64_t bits) { return each << (DP_SHADOW_BITS - bits); }

/* What a program takes of the file that has so many shadows. */
static uint64_t size_of(uint64_t bits, uint64_t shadows, uint64_t more) { return shadows * shadow_of(bits) + TEXTS * DP_SHADOW_TEXT + more; }

static uint64_t file_of(uint64_t n) { return DP_SH_IMAGES * n + DP_PAGE_SIZE; }

/* By a file of so many bytes: which granules it is of, for how many threads, and what a program takes
 * of it. Returns whether it has shadows. */
static int is_of(uint64_t bytes, uint64_t more)
{
	static const uint8_t all[] = {DP_SH_PAGE, DP_SH_LINE, DP_SH_WORD};
	each = 2;
	for (unsigned i = 0; i < sizeof all; i++) {
		granule = all[i];
		size = size_of(granule, threads = 1, more);
		if (bytes == file_of(size))
			return 1;
	}
	granule = DP_SH_PAGE;
	size = size_of(granule, threads = DP_SHADOW_THREADS, more);
	if (bytes == file_of(size))
		return 1;
	each = DP_SH_BY;
	size = size_of(granule, threads = 1, more);
	return bytes == file_of(size);
}

/* Takes the next of the shadows: each program that the process goes on as has one of its own. Who
 * looks into them is told. Returns its number, or -errno. */
static long take_shadow(long fd)
{
	long page = raw(SYS_mmap, 0, DP_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, DP_SH_IMAGES * size);
	if (failed(page))
		return page;
	uint32_t *taken = (uint32_t *)page;
	long number = __atomic_fetch_add(taken, 1, __ATOMIC_SEQ_CST);
	raw(SYS_futex, taken, FUTEX_WAKE, 1, 0, 0, 0);
	raw(SYS_munmap, page, DP_PAGE_SIZE);
	return number;
}

_Static_assert(DP_SH_IMAGES == 64, "what is said");

const char *dp_heat_begin(const char *path, enum dp_behind behind, struct dp_wanted wanted)
{
	static struct dp_kept kept;
	struct stat st;
	if (dp_locks_new())
		return "new memory is locked";
	long fd = raw(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (failed(fd))
		return "their file cannot be opened (another pid namespace?)";
	long at = -1, number = 0;
	int regions = behind == DP_REGIONS;
	uint64_t more = regions ? DP_RG_SIZE : behind == DP_BLOCKS ? DP_AL_SIZE : 0;
	if (raw(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode) && is_of((uint64_t)st.st_size, more)) {
		if (DP_SHADOW + size > wanted.from) {
			raw(SYS_close, fd);
			return wanted.why;
		}
		number = at = take_shadow(fd);
	}
	if (number >= DP_SH_IMAGES) {
		raw(SYS_close, fd);
		return number == DP_SH_IMAGES ? "64 programs have run in this process, one after the other, and there is no room for more" : "";
	}
	uint64_t from = (uint64_t)number * size;
	if (!failed(at))
		at = raw(SYS_mmap, DP_SHADOW, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, from);
	first = DP_SHADOW;
	before = (uint64_t)number;
	if (at == DP_SHADOW && regions) {
		long front = raw(SYS_mmap, DP_SHADOW - DP_PAGE_SIZE, DP_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, from + size_of(granule, threads, 0));
		if (front != DP_SHADOW - DP_PAGE_SIZE) {
			raw(SYS_munmap, at, size);
			if (!failed(front))
				raw(SYS_munmap, front, DP_PAGE_SIZE);
			at = failed(front) ? front : -EEXIST;
		} else
			first = DP_SHADOW - DP_PAGE_SIZE;
	}
	raw(SYS_close, fd);
	if (at == -EEXIST)
		return "their place is taken";
	if (failed(at))
		return "there is not enough address space (ulimit -v?)";
	if (at != DP_SHADOW) { /* an old kernel */
		raw(SYS_munmap, at, size);
		return "their place is taken";
	}
	sandboxed = dp_sandboxed();
	raw(SYS_madvise, at, size, MADV_DONTDUMP);
	dp_own(first, DP_SHADOW - first + size);
	dp_space_of_shadow(DP_SHADOW - first + size);
	dp_note_kept(&kept, (const void *)first, DP_SHADOW - first + size);
	texts = (struct text *)(DP_SHADOW + threads * shadow_of(granule));
	dp_shadowed = 1;
	if ((has_regions = regions)) {
		dp_regions_begin((uint64_t)(texts + TEXTS));
		dp_audit_begin((uint64_t)(texts + TEXTS));
		dp_trace_begin();
	} else if (behind == DP_BLOCKS)
		dp_held_begin((uint64_t)(texts + TEXTS));
	note_maps(&texts[0]);
	return 0;
}

void dp_heat_of(const uint8_t *table)
{
	if (texts)
		dp_copy_bytes(texts[0].table, table, sizeof texts[0].table);
}

void dp_heat_take_back(void)
{
	if (!texts)
		return;
	dp_regions_end();
	dp_held_end();
	dp_audit_begin(0);
	texts = 0;
	dp_shadowed = 0;
	dp_disown(first);
	dp_space_of_shadow(0);
	raw(SYS_munmap, first, DP_SHADOW - first + size);
}

int dp_heat_has(uint64_t low, uint64_t high) { return texts && low < DP_SHADOW + size && high > first; }

uint64_t dp_heat_how(void)
{
	if (!texts)
		return DP_HEAT_NONE;
	if (has_regions)
		return dp_cpu()->masks ? DP_HEAT_REGIONS_MASKS : DP_HEAT_REGIONS;
	if (threads > 1)
		return DP_HEAT_THREADS;
	if (each == DP_SH_BY)
		return dp_cpu()->masks ? DP_HEAT_WHO_MASKS : DP_HEAT_WHO;
	return dp_cpu()->masks ? DP_HEAT_MASKS : DP_HEAT_SHIFTS;
}

uint64_t dp_heat_granule(void) { return granule; }

uint8_t *dp_heat_shadow(void)
{
	uint8_t row = 0;
	if (threads > 1 && !dp.shared)
		__asm__ volatile("movb %%gs:%c1, %0" : "=r"(row) : "i"(DP_ROW_INDEX));
	return (uint8_t *)DP_SHADOW + row * shadow_of(granule);
}

uint64_t dp_heat_before(void) { return before; }

int dp_heat_asks(void) { return !sandboxed; }

void dp_heat_end(void)
{
	if (texts && dp.incarnation == 1)
		note_maps(&texts[1]);
}
