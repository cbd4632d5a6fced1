/* Text that is changed already: a copy of the object's file beside its plan, with the same
 * bytes at the same offsets but for the changes (patcher/textcopy), is mapped in place of
 * the text, so that no page of it has to be written to. Who may have written it is asked as
 * of a plan; that nobody has since, by its mtime, which is that of the object; whose it is,
 * by the sum of the plan. The text's windows are compared as ever before it takes their
 * place (plans/apply.c). */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/mapped.h"
#include "base/pages.h"
#include "base/text.h"
#include "plans/apply.h"
#include "warm/local.h"
#include "warm/warm.h"

/* It has got the object's time in microseconds. */
static int is_as_written(const struct stat *st, const struct dp_plan_file *p)
{
	return (uint64_t)st->st_size == pages(p->object_size) + DP_COPY_END_SIZE &&
	       (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec == p->mtime / 1000 * 1000;
}

static int is_copy_of(long fd, const struct dp_plan_file *p)
{
	uint8_t end[DP_COPY_END_SIZE];
	struct stat st;
	if (raw(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) != 0 || !dp_may_use(&st) || !is_as_written(&st, p) || !dp_is_local(fd))
		return 0;
	if (raw(SYS_pread64, fd, end, sizeof end, pages(p->object_size)) != (long)sizeof end)
		return 0;
	return same_bytes(end, DP_COPY_MAGIC, 8) && same_bytes(end + DP_COPY_OF, &p->check, sizeof p->check);
}

const struct dp_plan_text *dp_copied_text(const struct dp_plan_file *p)
{
	const struct dp_plan_text *t = dp_part(p, &p->texts), *most = t;
	for (uint32_t i = 1; i < p->texts.count; i++)
		if (t[i].listed > most->listed)
			most = &t[i];
	return most;
}

static int may_be_copied(const struct dp_planned *o, const struct dp_plan_text *t)
{
	return o->plan->texts.count && o->plan->counters && t->prot == (PROT_READ | PROT_EXEC) && t->offset + t->size <= pages(o->plan->object_size);
}

/* The name of the plan's file with another extension. */
static void put_copy(struct dp_text_buffer *b, const char *name)
{
	static const char extension[] = ".plan";
	dp_put(b, name, text_len(name) - (sizeof extension - 1));
	dp_put_text(b, ".text");
}

static struct dp_copy map_pages(long fd, const struct dp_mapping *m)
{
	uint64_t size = m->end - m->start;
	long at = raw(SYS_mmap, dp_far_below(size), size, m->prot, MAP_PRIVATE, fd, m->offset);
	return (struct dp_copy){m->start, size, failed(at) ? 0 : (uint64_t)at};
}

/* Whether a mapping has the file's bytes, and only those. */
static int is_constant(const struct dp_planned *o, const struct dp_mapping *m)
{
	const Elf64_Ehdr *e = (const Elf64_Ehdr *)o->files->start; /* match.c has asked */
	const Elf64_Phdr *p = (const Elf64_Phdr *)(o->files->start + e->e_phoff);
	if (!m->inode || m->prot != PROT_READ || e->e_phoff + (uint64_t)e->e_phnum * sizeof *p > DP_HEAD_SIZE)
		return 0;
	for (int i = 0; i < e->e_phnum; i++) {
		uint64_t low = dp_bias(o) + p[i].p_vaddr;
		if (p[i].p_type == PT_LOAD && (p[i].p_flags & PF_W) && m->start < low + p[i].p_memsz && low < m->end)
			return 0; /* relocated, and closed since */
	}
	return m->offset + (m->end - m->start) <= pages(o->plan->object_size);
}

static void map_pieces(struct dp_planned *o, const struct dp_plan_text *t, long fd)
{
	const struct dp_mapping *end = o->files + o->files_count;
	for (const struct dp_mapping *m = o->files; m < end; m++) {
		if (!m->inode || m->start != t->start + dp_bias(o))
			continue;
		o->copy = map_pages(fd, m);
		if (o->copy.from && m > o->files && is_constant(o, m - 1))
			o->beside[0] = map_pages(fd, m - 1);
		if (o->copy.from && m + 1 < end && is_constant(o, m + 1))
			o->beside[1] = map_pages(fd, m + 1);
	}
}

void dp_map_copy(const struct dp_warm *w, struct dp_planned *o, long plans, const char *name)
{
	char path[32];
	struct dp_text_buffer b = dp_buffer(path, sizeof path);
	const struct dp_plan_text *t = dp_copied_text(o->plan);
	put_copy(&b, name);
	if (!w->choice.text_copies || b.bad || !may_be_copied(o, t))
		return;
	long fd = raw(SYS_openat, plans, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (failed(fd))
		return;
	if (is_copy_of(fd, o->plan))
		map_pieces(o, t, fd);
	raw(SYS_close, fd);
}

void dp_drop_copy(struct dp_planned *o)
{
	dp_unmap_copy(&o->copy);
	dp_unmap_copy(&o->beside[0]);
	dp_unmap_copy(&o->beside[1]);
}
