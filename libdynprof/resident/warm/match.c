/* Whether an object is the one that was planned, as it was then (patcher/cached.go). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/pages.h"
#include "base/sum.h"
#include "warm/warm.h"

static uint64_t nanoseconds(const struct timespec *t) { return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec; }

/* The file that has its path is the one that is mapped, and as it was. */
static int is_file(const struct dp_planned *o)
{
	const struct dp_plan_file *p = o->plan;
	struct stat st;
	return raw(SYS_newfstatat, AT_FDCWD, o->path, &st, 0) == 0 && st.st_ino == o->files->inode && st.st_ino == p->inode &&
	       (uint64_t)st.st_size == p->object_size && nanoseconds(&st.st_mtim) == p->mtime && nanoseconds(&st.st_ctim) == p->ctime;
}

/* Headers, mostly the build-id. */
static int has_head(const struct dp_planned *o)
{
	const struct dp_mapping *m = o->files;
	return m->offset == 0 && (m->prot & PROT_READ) && dp_fnv(DP_FNV_BEGIN, (const void *)m->start, DP_HEAD_SIZE) == o->plan->head;
}

static int is_mapped_alike(const struct dp_planned *o)
{
	uint64_t bias = dp_bias(o);
	return o->files->start - bias == o->plan->low && o->files[o->files_count - 1].end - bias == o->plan->high;
}

static int has_text(const struct dp_planned *o, const struct dp_plan_text *t)
{
	for (uint64_t i = 0; i < o->files_count; i++) {
		const struct dp_mapping *m = &o->files[i];
		if (m->inode && m->start - dp_bias(o) == t->start && m->end - m->start == t->size && m->prot == t->prot && m->offset == t->offset)
			return 1;
	}
	return 0;
}

static int has_texts(const struct dp_planned *o)
{
	const struct dp_plan_text *t = dp_part(o->plan, &o->plan->texts);
	for (uint32_t i = 0; i < o->plan->texts.count; i++)
		if (!has_text(o, &t[i]) || !(t[i].prot & PROT_EXEC))
			return 0;
	return 1;
}

/* Whether the pages [first, end) are the file's: nobody has written to them, no debugger,
 * no text relocation (Documentation/admin-guide/mm/pagemap.rst of the kernel). */
static int are_the_files(long pagemap, uint64_t first, uint64_t end)
{
	enum { AT_A_TIME = 128 };
	const uint64_t there = 3ull << 62, of_file = 1ull << 61;
	static uint64_t words[AT_A_TIME]; /* dlopen may be called on a small stack, by one thread at a time */
	while (first < end) {
		uint64_t n = end - first < AT_A_TIME ? end - first : AT_A_TIME;
		if (raw(SYS_pread64, pagemap, words, n * sizeof *words, first * sizeof *words) != (long)(n * sizeof *words))
			return 0;
		for (uint64_t i = 0; i < n; i++)
			if ((words[i] & there) && !(words[i] & of_file))
				return 0;
		first += n;
	}
	return 1;
}

static int is_unwritten(const struct dp_warm *w, const struct dp_planned *o)
{
	int ok = !failed(w->pagemap);
	for (uint64_t i = 0; i < o->files_count && ok; i++) {
		const struct dp_mapping *m = &o->files[i];
		if (m->inode && (m->prot & PROT_EXEC))
			ok = (m->prot & PROT_READ) && are_the_files(w->pagemap, m->start / DP_PAGE_SIZE, m->end / DP_PAGE_SIZE);
	}
	return ok;
}

int dp_plan_is_of(const struct dp_warm *w, const struct dp_planned *o)
{
	return is_file(o) && has_head(o) && is_mapped_alike(o) && has_texts(o) && is_unwritten(w, o) && (dp_times_tell(o->plan) || dp_has_content(o));
}
