/* The sum of what is loaded of an object's file (internal/plancache/content.go), for files
 * whose times do not tell them from others: of images of file systems. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/mapped.h"
#include "base/sum.h"
#include "warm/warm.h"

int dp_times_tell(const struct dp_plan_file *p)
{
	const uint64_t second = 1000000000;
	return p->ctime != p->mtime && p->ctime % second != 0;
}

enum { STEP = 64 << 10 };

struct reading {
	long fd;
	uint8_t *step; /* STEP bytes */
	uint64_t sum, left; /* bytes that the loaded parts may have */
	int bad;
};

static void read_at(struct reading *r, void *to, uint64_t n, uint64_t at)
{
	r->bad |= raw(SYS_pread64, r->fd, to, n, at) != (long)n;
}

static void add_loaded(struct reading *r, uint64_t at, uint64_t n)
{
	r->bad |= n > r->left;
	r->left -= r->bad ? 0 : n;
	while (n > 0 && !r->bad) {
		uint64_t some = n < STEP ? n : STEP;
		read_at(r, r->step, some, at);
		uint64_t sum = dp_xxh64(r->step, some);
		r->sum = dp_fnv(r->sum, &sum, sizeof sum);
		at += some;
		n -= some;
	}
}

static void add_all(struct reading *r)
{
	Elf64_Ehdr e = {0};
	Elf64_Phdr p = {0};
	read_at(r, &e, sizeof e, 0);
	r->bad |= e.e_phentsize != sizeof p;
	for (int i = 0; i < e.e_phnum && !r->bad; i++) {
		read_at(r, &p, sizeof p, e.e_phoff + (uint64_t)i * sizeof p);
		r->sum = dp_fnv(r->sum, &p, sizeof p);
		if (p.p_type == PT_LOAD)
			add_loaded(r, p.p_offset, p.p_filesz);
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
	struct reading r = {.sum = DP_FNV_BEGIN, .left = p->object_size};
	r.fd = raw(SYS_openat, AT_FDCWD, o->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (failed(r.fd))
		return 0;
	long at = is_planned(r.fd, p) ? raw(SYS_mmap, dp_far_below(STEP), STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : -1;
	if (!failed(at)) {
		r.step = (uint8_t *)at;
		add_all(&r);
		raw(SYS_munmap, at, (uint64_t)STEP);
	}
	raw(SYS_close, r.fd);
	return !failed(at) && !r.bad && (r.sum ? r.sum : 1) == p->content;
}
