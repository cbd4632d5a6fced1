/* dynprof_snapshot: a copy of the table, as internal/table/edit/copy.go makes it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "api/copy.h"
#include "base/clock.h"
#include "base/state.h"
#include "rows/chunks.h"
#include "rows/rows.h"
#include "table/view.h"

/* Writes n bytes that lie at the same place of the file. The kernel reads them:
 * a page that is not there is an error and no signal. */
static long put(long fd, const void *what, uint64_t n, uint64_t at)
{
	const uint8_t *from = what;
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

/* The first entries of a section. */
static long put_section(long fd, const struct dp_header *v, const struct dp_section *s, uint64_t count)
{
	return s->offset ? put(fd, dp_in_table(v, s->offset), count * s->entry_size, s->offset) : 0;
}

static long put_baseline(long fd, const struct dp_header *v, uint64_t number)
{
	uint64_t at = v->baselines.offset + number * v->baselines.entry_size;
	const struct dp_baseline *b = dp_in_table(v, at);
	const uint64_t *rows = &b->counts[v->counters_cap];
	long err = put(fd, b, DP_BL_COUNTS + 8 * (uint64_t)b->counters, at);
	return err ? err : put(fd, rows, 8 * (uint64_t)b->rows, at + DP_BL_COUNTS + 8 * (uint64_t)v->counters_cap);
}

static long put_head(long fd, const struct dp_header *v, const struct dp_header *header)
{
	uint64_t events = header->events_head, room = v->events.capacity, baseline = header->baseline & 0xff;
	long err = put_section(fd, v, &v->missed, v->missed.capacity);
	if (!err)
		err = put_section(fd, v, &v->formers, v->formers.capacity);
	if (!err)
		err = put_section(fd, v, &v->events, events < room ? events : room);
	if (!err && dp.threshold_fired)
		err = put_section(fd, v, &v->fired, header->counters);
	if (!err)
		err = put_section(fd, v, &header->objects, header->objects.count);
	if (!err)
		err = put_section(fd, v, &header->functions, header->functions.count);
	if (!err)
		err = put_section(fd, v, &header->aliases, header->aliases.count);
	if (!err)
		err = put_section(fd, v, &header->strings, header->strings.count);
	if (!err)
		err = put_section(fd, v, &header->blocks, header->blocks.count);
	if (!err)
		err = put_section(fd, v, &header->ways, header->ways.count);
	if (!err)
		err = put_section(fd, v, &header->loops, header->loops.count);
	return err || !baseline ? err : put_baseline(fd, v, baseline - 1);
}

static long put_rows(long fd, const struct dp_header *header, uint32_t n)
{
	uint64_t size = DP_ROW_COUNTERS + 8 * (uint64_t)header->counters;
	long err = 0;
	for (uint32_t i = 0; !err && i < n; i++) {
		const struct dp_row *row = dp_row_map(i);
		err = row ? put(fd, row, size, header->rows.offset + i * (uint64_t)header->rows.entry_size) : -ENOMEM;
		if (err == -EFAULT)
			err = 0; /* there was no room for that row, nobody has it */
	}
	return err;
}

enum { COPIED = DP_HDR_ROW_LISTS }; /* the rest of a copy's header is zero */

/* One copy. Returns -EAGAIN if more than counts has changed meanwhile, or is being
 * changed: only the last try takes a generation that is odd and stays so, as its
 * adder has died. */
static long copy_once(long fd, const struct dp_header *v, int last)
{
	struct dp_header header = {0};
	/* Before anything else: the header is not read in one moment. */
	uint32_t generation = __atomic_load_n(&v->generation, __ATOMIC_ACQUIRE);
	long err = raw(SYS_ftruncate, fd, 0);
	for (unsigned i = 0; i < COPIED; i++)
		((uint8_t *)&header)[i] = ((const uint8_t *)v)[i];
	uint32_t used = header.rows_used, n = used < dp.rows_max ? used : dp.rows_max;
	if (!err)
		err = put_head(fd, v, &header);
	if (!err)
		err = put_rows(fd, &header, n);
	if (err)
		return err;
	if ((generation % 2 && !last) || generation != __atomic_load_n(&v->generation, __ATOMIC_ACQUIRE) ||
	    header.baseline != __atomic_load_n(&v->baseline, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	uint64_t baseline = header.baseline & 0xff;
	header.rows.count = header.rows.capacity = n;
	header.file_size = header.rows.offset + n * (uint64_t)header.rows.entry_size;
	header.snapshot = dp_now(CLOCK_REALTIME);
	header.baselines_taken = baseline ? 1U << (baseline - 1) : 0;
	header.pause_lock = header.agent = header.appender = 0;
	header.stock_head = header.stock_rows = header.rows_taken = 0;
	err = raw(SYS_ftruncate, fd, header.file_size);
	return err ? err : put(fd, &header, COPIED, 0);
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
		err = copy_once(fd, v, i == TRIES - 1);
	raw(SYS_close, fd);
	if (!err)
		err = raw(SYS_renameat2, AT_FDCWD, name, AT_FDCWD, path, 0);
	if (err)
		raw(SYS_unlinkat, AT_FDCWD, name, 0);
	return err;
}
