/* See heat.h. Children that are forked have the same shadow. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
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
#include "table/audit.h"
#include "table/heat.h"
#include "table/regions.h"

/* Behind the shadow the file has two texts of /proc/self/smaps, as they were at the start and
 * at the end, each behind its length, which is stored last. */
struct text {
	uint64_t length; /* 0: there is none */
	char bytes[DP_SHADOW_TEXT - sizeof(uint64_t)];
};

enum { TEXTS = 2 };

static struct text *texts; /* 0: there is no shadow */
static uint64_t first;	   /* of what is mapped: with regions it is a page in front, of theirs */
static uint64_t size;	   /* bytes from DP_SHADOW on */
static uint64_t granule;   /* bits of an address within one */
static int has_regions, has_threads, sandboxed;
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

static uint64_t shadow_of(uint64_t bits) { return 2UL << (DP_SHADOW_BITS - bits); }

/* Which granules a file of so many bytes is of; 0: it is no shadow. */
static uint64_t granule_of(uint64_t bytes, uint64_t more)
{
	static const uint8_t all[] = {DP_SH_PAGE, DP_SH_LINE, DP_SH_WORD};
	for (unsigned i = 0; i < sizeof all; i++)
		if (bytes == shadow_of(all[i]) + TEXTS * DP_SHADOW_TEXT + more)
			return all[i];
	has_threads = !more && bytes == DP_SHADOW_THREADS * shadow_of(DP_SH_PAGE) + TEXTS * DP_SHADOW_TEXT;
	return has_threads ? DP_SH_PAGE : 0;
}

static uint64_t all_shadows(void) { return shadow_of(granule) * (has_threads ? DP_SHADOW_THREADS : 1); }

const char *dp_heat_begin(const char *path, int regions)
{
	static struct dp_kept kept;
	struct stat st;
	if (dp_locks_new())
		return "new memory is locked";
	long fd = raw(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (failed(fd))
		return "their file cannot be opened (another pid namespace?)";
	long at = -1;
	if (raw(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode) && (granule = granule_of((uint64_t)st.st_size, regions ? DP_RG_SIZE : 0))) {
		size = (uint64_t)st.st_size;
		at = raw(SYS_mmap, DP_SHADOW, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);
	}
	first = DP_SHADOW;
	if (at == DP_SHADOW && regions) {
		long front = raw(SYS_mmap, DP_SHADOW - DP_PAGE_SIZE, DP_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, shadow_of(granule) + TEXTS * DP_SHADOW_TEXT);
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
	dp_note_kept(&kept, (const void *)first, DP_SHADOW - first + size);
	texts = (struct text *)(DP_SHADOW + all_shadows());
	dp_shadowed = 1;
	if ((has_regions = regions)) {
		dp_regions_begin((uint64_t)(texts + TEXTS));
		dp_audit_begin((uint64_t)(texts + TEXTS));
	}
	note_maps(&texts[0]);
	return 0;
}

void dp_heat_take_back(void)
{
	if (!texts)
		return;
	dp_regions_end();
	dp_audit_begin(0);
	texts = 0;
	dp_shadowed = 0;
	dp_disown(first);
	raw(SYS_munmap, first, DP_SHADOW - first + size);
}

int dp_heat_has(uint64_t low, uint64_t high) { return texts && low < DP_SHADOW + size && high > first; }

uint64_t dp_heat_how(void)
{
	if (!texts)
		return DP_HEAT_NONE;
	if (has_regions)
		return dp_cpu()->masks ? DP_HEAT_REGIONS_MASKS : DP_HEAT_REGIONS;
	if (has_threads)
		return DP_HEAT_THREADS;
	return dp_cpu()->masks ? DP_HEAT_MASKS : DP_HEAT_SHIFTS;
}

uint64_t dp_heat_granule(void) { return granule; }

uint8_t *dp_heat_shadow(void)
{
	uint8_t row = 0;
	if (has_threads && !dp.shared)
		__asm__ volatile("movb %%gs:%c1, %0" : "=r"(row) : "i"(DP_ROW_INDEX));
	return (uint8_t *)DP_SHADOW + row * shadow_of(granule);
}

int dp_heat_asks(void) { return !sandboxed; }

void dp_heat_end(void)
{
	if (texts && dp.incarnation == 1)
		note_maps(&texts[1]);
}
