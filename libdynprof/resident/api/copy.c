/* dynprof_snapshot: a copy of the table, as internal/table/edit/copy.go makes it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "base/clock.h"
#include "base/state.h"
#include "rows/rows.h"
#include "table/view.h"

/* The copy of the header is a part of it, for small stacks: fields by their offset. */
#define dp_u32(base, offset) ((uint32_t *)((uint8_t *)(base) + (offset)))
#define dp_u64(base, offset) ((uint64_t *)((uint8_t *)(base) + (offset)))

/* Writes n bytes that lie at the same place of the file. The kernel reads them:
 * a page that is not there is an error and no signal. */
static long put(long fd, const uint8_t *from, uint64_t n, uint64_t at)
{
	while (n > 0) {
		long did = raw(SYS_pwrite64, fd, from, n, at);
		if (did == -EINTR)
			continue;
		if (failed(did) || did == 0)
			return did ? did : -EIO;
		from += did;
		n -= (uint64_t)did;
		at += (uint64_t)did;
	}
	return 0;
}

/* A section's entries in use. */
static long put_section(long fd, const uint8_t *v, uint64_t section, uint64_t count)
{
	uint64_t at = *dp_u64(v, section + DP_SEC_OFFSET);
	return at ? put(fd, v + at, count * *dp_u32(v, section + DP_SEC_ENTRY_SIZE), at) : 0;
}

static long put_head(long fd, const uint8_t *v, const uint8_t *header)
{
	static const uint16_t ledger[] = {DP_HDR_OBJECTS, DP_HDR_FUNCTIONS, DP_HDR_ALIASES, DP_HDR_STRINGS};
	long err = put_section(fd, v, DP_HDR_MISSED, *dp_u32(v, DP_HDR_MISSED + DP_SEC_CAPACITY));
	if (!err)
		err = put_section(fd, v, DP_HDR_FORMERS, *dp_u32(v, DP_HDR_FORMERS + DP_SEC_CAPACITY));
	uint64_t events = *dp_u64(header, DP_HDR_EVENTS_HEAD), room = *dp_u32(v, DP_HDR_EVENTS + DP_SEC_CAPACITY);
	if (!err)
		err = put_section(fd, v, DP_HDR_EVENTS, events < room ? events : room);
	if (!err && dp.threshold_fired)
		err = put_section(fd, v, DP_HDR_FIRED, *dp_u32(header, DP_HDR_COUNTERS));
	for (unsigned i = 0; !err && i < sizeof ledger / sizeof *ledger; i++)
		err = put_section(fd, v, ledger[i], *dp_u32(header, ledger[i] + DP_SEC_COUNT));
	uint64_t baseline = *dp_u64(header, DP_HDR_BASELINE) & 0xff;
	if (err || !baseline)
		return err;
	uint64_t size = *dp_u32(v, DP_HDR_BASELINES + DP_SEC_ENTRY_SIZE);
	uint64_t at = *dp_u64(v, DP_HDR_BASELINES + DP_SEC_OFFSET) + (baseline - 1) * size;
	uint64_t counters = DP_BL_COUNTS + 8 * (uint64_t)*dp_u32(v + at, DP_BL_COUNTERS);
	uint64_t rows = DP_BL_COUNTS + 8 * (uint64_t)*dp_u32(v, DP_HDR_COUNTERS_CAP);
	err = put(fd, v + at, counters, at);
	return err ? err : put(fd, v + at + rows, 8 * (uint64_t)*dp_u32(v + at, DP_BL_ROWS), at + rows);
}

enum { HEADER = DP_HDR_ROW_LISTS }; /* the rest of its page is zero */

/* One copy. Returns -EAGAIN if more than counts has changed meanwhile, or is being
 * changed: only the last try takes a generation that is odd and stays so, as its
 * adder has died. */
static long copy_once(long fd, const uint8_t *v, int last)
{
	uint8_t header[HEADER];
	/* Before anything else: the header is not read in one moment. */
	uint32_t generation = __atomic_load_n(dp_u32(v, DP_HDR_GENERATION), __ATOMIC_ACQUIRE);
	long err = raw(SYS_ftruncate, fd, 0);
	for (unsigned i = 0; i < sizeof header; i++)
		header[i] = v[i];
	if (!err)
		err = put_head(fd, v, header);
	uint64_t first = *dp_u64(header, DP_HDR_ROWS + DP_SEC_OFFSET), stride = *dp_u32(header, DP_HDR_ROWS + DP_SEC_ENTRY_SIZE);
	uint32_t used = *dp_u32(header, DP_HDR_ROWS_USED), n = used < dp.rows_max ? used : dp.rows_max;
	uint64_t size = DP_ROW_COUNTERS + 8 * (uint64_t)*dp_u32(header, DP_HDR_COUNTERS);
	for (uint32_t i = 0; !err && i < n; i++) {
		const struct dp_row *row = dp_row_map(i);
		err = row ? put(fd, (const uint8_t *)row, size, first + i * stride) : -ENOMEM;
		if (err == -EFAULT)
			err = 0; /* there was no room for that row, nobody has it */
	}
	if (err)
		return err;
	if ((generation % 2 && !last) || generation != __atomic_load_n(dp_u32(v, DP_HDR_GENERATION), __ATOMIC_ACQUIRE) ||
	    *dp_u64(header, DP_HDR_BASELINE) != __atomic_load_n(dp_u64(v, DP_HDR_BASELINE), __ATOMIC_ACQUIRE))
		return -EAGAIN;
	*dp_u32(header, DP_HDR_ROWS + DP_SEC_COUNT) = *dp_u32(header, DP_HDR_ROWS + DP_SEC_CAPACITY) = n;
	*dp_u64(header, DP_HDR_FILE_SIZE) = first + n * stride;
	*dp_u64(header, DP_HDR_SNAPSHOT) = dp_now(CLOCK_REALTIME);
	uint64_t baseline = *dp_u64(header, DP_HDR_BASELINE) & 0xff;
	*dp_u32(header, DP_HDR_BASELINES_TAKEN) = baseline ? 1U << (baseline - 1) : 0;
	*dp_u32(header, DP_HDR_PAUSE_LOCK) = *dp_u32(header, DP_HDR_AGENT) = *dp_u32(header, DP_HDR_APPENDER) = 0;
	*dp_u64(header, DP_HDR_STOCK_HEAD) = *dp_u32(header, DP_HDR_STOCK_ROWS) = *dp_u32(header, DP_HDR_ROWS_TAKEN) = 0;
	err = raw(SYS_ftruncate, fd, first + n * stride);
	return err ? err : put(fd, header, sizeof header, 0);
}

enum { TRIES = 50, NAME_MAX_ = 4096 };

long dp_copy(const struct dp_header *v, const char *path)
{
	static const char suffix[] = ".new-";
	char name[NAME_MAX_];
	size_t n = text_copy(name, sizeof name - 32, path);
	if (path[n])
		return -ENAMETOOLONG;
	n += text_copy(name + n, sizeof name - n, suffix);
	for (uint32_t tid = (uint32_t)raw(SYS_gettid); tid; tid /= 10)
		name[n++] = (char)('0' + tid % 10);
	name[n] = 0;
	long fd = raw(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (failed(fd))
		return fd;
	long err = -EAGAIN;
	for (int i = 0; i < TRIES && err == -EAGAIN; i++)
		err = copy_once(fd, (const uint8_t *)v, i == TRIES - 1);
	raw(SYS_close, fd);
	if (!err)
		err = raw(SYS_renameat2, AT_FDCWD, name, AT_FDCWD, path, 0);
	if (err)
		raw(SYS_unlinkat, AT_FDCWD, name, 0);
	return err;
}
