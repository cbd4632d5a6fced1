/* The sum of what is loaded of an object's file (internal/plancache/content.go), for files
 * whose times do not tell them from others: of images of file systems. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/mapped.h"
#include "base/pages.h"
#include "base/recordlock.h"
#include "base/sum.h"
#include "warm/local.h"
#include "warm/warm.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

int dp_times_tell(const struct dp_plan_file *p)
{
	const uint64_t second = 1000000000;
	return p->ctime != p->mtime && p->ctime % second != 0;
}

enum { STEP = 64 << 10, PIECE = 16 * STEP, ROOM = PIECE + DP_PAGE_SIZE };

struct reading {
	long fd;
	uint64_t room; /* address of ROOM bytes, for pieces of the file */
	uint64_t sum, left; /* bytes that the loaded parts may have */
	int local;	 /* pieces are mapped, which saves copying them */
	int bad;
};

static void read_at(struct reading *r, void *to, uint64_t n, uint64_t at)
{
	r->bad |= raw(SYS_pread64, r->fd, to, n, at) != (long)n;
}

/* Returns where n bytes of the file are: what cannot be read from disk is an error now, not
 * a signal later (madvise(2)). */
static const uint8_t *fetch(struct reading *r, uint64_t at, uint64_t n)
{
	uint64_t before = at % DP_PAGE_SIZE;
	if (r->local && raw(SYS_mmap, r->room, before + n, PROT_READ, MAP_PRIVATE | MAP_FIXED, r->fd, at - before) == (long)r->room &&
	    raw(SYS_madvise, r->room, before + n, MADV_POPULATE_READ) == 0)
		return (const uint8_t *)r->room + before;
	long there = raw(SYS_mmap, r->room, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	r->local = 0;
	r->bad |= there != (long)r->room;
	if (!r->bad)
		read_at(r, (void *)there, n, at);
	return (const uint8_t *)r->room;
}

static void add_piece(struct reading *r, uint64_t at, uint64_t n)
{
	const uint8_t *bytes = fetch(r, at, n);
	for (uint64_t done = 0; done < n && !r->bad; done += STEP) {
		uint64_t sum = dp_xxh64(bytes + done, n - done < STEP ? n - done : STEP);
		r->sum = dp_fnv(r->sum, &sum, sizeof sum);
	}
}

static void add_loaded(struct reading *r, uint64_t at, uint64_t n)
{
	r->bad |= n > r->left;
	r->left -= r->bad ? 0 : n;
	while (n > 0 && !r->bad) {
		uint64_t some = n < PIECE ? n : PIECE;
		add_piece(r, at, some);
		at += some;
		n -= some;
	}
}

static void add_all(struct reading *r)
{
	enum { SOME = 16 };
	Elf64_Ehdr e = {0};
	Elf64_Phdr some[SOME] = {{0}};
	read_at(r, &e, sizeof e, 0);
	r->bad |= e.e_phentsize != sizeof *some;
	for (int i = 0; i < e.e_phnum && !r->bad; i++) {
		const Elf64_Phdr *p = &some[i % SOME];
		int n = e.e_phnum - i < SOME ? e.e_phnum - i : SOME;
		if (p == some)
			read_at(r, some, (uint64_t)n * sizeof *some, e.e_phoff + (uint64_t)i * sizeof *some);
		r->sum = dp_fnv(r->sum, p, sizeof *p);
		if (p->p_type == PT_LOAD)
			add_loaded(r, p->p_offset, p->p_filesz);
	}
}

static int is_planned(long fd, const struct dp_plan_file *p)
{
	struct stat st;
	return raw(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 && st.st_ino == p->inode && (uint64_t)st.st_size == p->object_size;
}

int dp_has_content(const struct dp_planned *o)
{
	const struct dp_plan_file *p = o->plan;
	if (dp_may_be_locked(p->inode))
		return 0;
	struct reading r = {.sum = DP_FNV_BEGIN, .left = p->object_size};
	r.fd = raw(SYS_openat, AT_FDCWD, o->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (failed(r.fd))
		return 0;
	long at = is_planned(r.fd, p) ? raw(SYS_mmap, dp_far_below(ROOM), ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : -1;
	if (!failed(at)) {
		r.room = (uint64_t)at;
		r.local = dp_is_local(r.fd);
		add_all(&r);
		raw(SYS_munmap, at, (uint64_t)ROOM);
	}
	raw(SYS_close, r.fd);
	return !failed(at) && !r.bad && (r.sum ? r.sum : 1) == p->content;
}
