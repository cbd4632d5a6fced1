/* The plans of all objects that are loaded, or none (internal/plancache/store). */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/mapped.h"
#include "base/own.h"
#include "base/pages.h"
#include "base/sum.h"
#include "base/text.h"
#include "warm/local.h"
#include "warm/place.h"
#include "warm/warm.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { LARGEST = 1 << 30, DAY = 24 * 3600 };

/* ---- the directory ------------------------------------------------------ */

enum { OTHERS_LOOK_IN = 077, OTHERS_WRITE = 022 };

static long open_directory(const char *path, uid_t owner, mode_t without)
{
	struct stat st;
	long fd = raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (failed(fd) || (raw(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 && st.st_uid == owner && !(st.st_mode & without)))
		return fd;
	raw(SYS_close, fd);
	return -1;
}

static long open_users(const struct dp_warm *w)
{
	static char path[DP_PATH_MAX]; /* dlopen may be called on a small stack, by one thread at a time */
	struct dp_text_buffer b = dp_buffer(path, sizeof path);
	const struct dp_choice *c = &w->choice;
	if (c->plans)
		dp_put_text(&b, c->plans);
	else if (c->cache_home && *c->cache_home == '/')
		dp_put_text(&b, c->cache_home);
	else if (c->home && *c->home == '/') {
		dp_put_text(&b, c->home);
		dp_put_text(&b, "/.cache");
	} else
		return -1;
	dp_put_text(&b, c->plans ? "" : "/dynprof/plans");
	return b.bad ? -1 : open_directory(path, (uid_t)raw(SYS_geteuid), OTHERS_LOOK_IN);
}

static int open_directories(struct dp_warm *w)
{
	w->plans[0] = open_users(w);
	w->plans[1] = open_directory("/var/cache/dynprof/plans", 0, OTHERS_WRITE);
	return !failed(w->plans[0]) || !failed(w->plans[1]);
}

/* ---- objects ------------------------------------------------------------ */

/* As patcher/object.go has it. */
static int is_selected(const struct dp_warm *w, const struct dp_planned *o)
{
	const char *name = dp_base_name((const char *)o->loaded->name);
	return w->choice.all || o->is_main || (!same_text(name, "libc.so.6") && !has_prefix(name, "ld-linux"));
}

static int is_named(const char *path)
{
	static const char deleted[] = " (deleted)"; /* as the kernel says it */
	size_t n = text_len(path), k = sizeof deleted - 1;
	for (const char *p = path; *p; p++)
		if (*p == '\\')
			return 0;
	return *path == '/' && !(n >= k && same_text(path + n - k, deleted));
}

/* Finds the mappings of its file. */
static int find_files(const struct dp_warm *w, struct dp_planned *o)
{
	for (uint64_t i = 0; i < w->maps.count; i++) {
		const struct dp_mapping *m = &w->maps.list[i];
		if (m->end <= o->loaded->low || m->start >= o->loaded->high || !m->inode)
			continue;
		if (!o->files)
			o->files = m;
		o->files_count = (uint64_t)(m - o->files) + 1;
	}
	o->path = o->files ? o->files->path : "";
	return o->files && is_named(o->path);
}

static int same_file(const struct dp_mapping *a, const struct dp_mapping *b) { return a->inode == b->inode && same_text(a->path, b->path); }

/* Finds where an object that comes later lies: the run of mappings of one file around its
 * dynamic section (patcher/late.go). */
static void locate(const struct dp_warm *w, struct dp_object *o)
{
	const struct dp_mapping *m = w->maps.list, *end = m + w->maps.count, *at = m;
	while (at < end && o->low >= at->end)
		at++;
	if (at == end || o->low < at->start || !at->inode)
		return;
	const struct dp_mapping *first = at, *last = at;
	while (first > m && same_file(first - 1, at) && first[-1].end == first->start)
		first--;
	while (last + 1 < end && same_file(last + 1, at) && last->end == last[1].start)
		last++;
	o->low = first->start;
	o->high = last->end;
}

static int note_objects(struct dp_warm *w)
{
	w->room = pages(w->ctl->objects_count * sizeof *w->objects);
	long at = raw(SYS_mmap, 0, w->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return 0;
	w->objects = (struct dp_planned *)at;
	for (uint32_t i = 0; i < w->ctl->objects_count; i++) {
		struct dp_planned *o = &w->objects[w->count];
		if (w->ctl->late)
			locate(w, &w->ctl->objects[i]);
		*o = (struct dp_planned){.loaded = &w->ctl->objects[i], .is_main = w->count == 0 && !w->ctl->late};
		if (o->loaded->self)
			continue;
		if (!find_files(w, o))
			return 0;
		o->selected = is_selected(w, o);
		w->count++;
	}
	return w->count > 0;
}

/* ---- this library ------------------------------------------------------- */

/* The build-id: the linker has made it of all that is in it. Objects that come later do not
 * tell where it is. */
static struct { uint8_t id[32]; uint32_t size; } planner;

/* Reads it out of notes (elf(5)). */
static void find_build_id(const uint8_t *at, uint64_t size)
{
	const uint8_t *end = at + size;
	while (at < end && (uint64_t)(end - at) >= sizeof(Elf64_Nhdr)) {
		const Elf64_Nhdr *n = (const Elf64_Nhdr *)at;
		uint64_t name = (n->n_namesz + 3u) & ~3u, bytes = n->n_descsz;
		const uint8_t *id = at + sizeof *n + name;
		if (name + bytes > (uint64_t)(end - at) - sizeof *n)
			return;
		if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && same_bytes(at + sizeof *n, "GNU", 4) && bytes <= sizeof planner.id) {
			dp_copy_bytes(planner.id, id, bytes);
			planner.size = (uint32_t)bytes;
			return;
		}
		at = id + ((bytes + 3) & ~3ul);
	}
}

void dp_know_planner(const struct dp_ctl *ctl)
{
	for (uint32_t i = 0; i < ctl->objects_count; i++) {
		const struct dp_object *o = &ctl->objects[i];
		if (!o->self)
			continue;
		const Elf64_Ehdr *e = (const Elf64_Ehdr *)o->low;
		const Elf64_Phdr *p = (const Elf64_Phdr *)(o->low + e->e_phoff);
		for (int k = 0; k < e->e_phnum && !planner.size; k++)
			if (p[k].p_type == PT_NOTE)
				find_build_id((const uint8_t *)(o->bias + p[k].p_vaddr), p[k].p_memsz);
	}
}

/* ---- files -------------------------------------------------------------- */

/* Places of arenas for which there may be plans, as patcher/cached.go has it. */
enum { SLOTS = 4 };

/* For what the plan was made (patcher/cached.go, keyOf). */
static void put_key(const struct dp_warm *w, const struct dp_planned *o, uint64_t slot, struct dp_text_buffer *b)
{
	uint64_t brk = w->ctl->r_brk, is_linker = brk >= o->loaded->low && brk < o->loaded->high;
	dp_put_text(b, "planner ");
	dp_put_bytes(b, planner.id, planner.size);
	dp_put_text(b, o->selected ? "\nselected true\n" : "\nselected false\n");
	dp_put_text(b, w->choice.keep_calls ? "keep-calls true\n" : "keep-calls false\n");
	dp_put_text(b, w->choice.blocks ? "blocks true\n" : "blocks false\n");
	dp_put_text(b, !w->choice.edges ? "edges false\n" : dp_counts_calls(&w->choice) && w->ctl->late ? "edges later\n" : "edges true\n");
	dp_put_text(b, w->choice.trips ? "trips true\n" : "trips false\n");
	static const char heat[][16] = {[DP_HEAT_NONE] = "none", [DP_HEAT_SHIFTS] = "shifts ", [DP_HEAT_MASKS] = "masks ", [DP_HEAT_REGIONS] = "regions", [DP_HEAT_REGIONS_MASKS] = "regions masks", [DP_HEAT_THREADS] = "threads", [DP_HEAT_WHO] = "who", [DP_HEAT_WHO_MASKS] = "who masks"};
	dp_put_text(b, "heat ");
	dp_put_text(b, heat[w->ctl->heat]);
	if (w->ctl->heat == DP_HEAT_SHIFTS || w->ctl->heat == DP_HEAT_MASKS)
		dp_put_number(b, w->ctl->granule, 10);
	if (w->ctl->heat != DP_HEAT_NONE && w->ctl->bases)
		dp_put_text(b, " bases");
	dp_put_text(b, w->choice.hot ? "\nswitch off\n" : "\nswitch none\n");
	dp_put_text(b, "threshold ");
	dp_put_number(b, w->choice.threshold, 10);
	dp_put_text(b, "\nhook ");
	dp_put_number(b, is_linker ? brk - dp_bias(o) : 0, 16);
	dp_put_text(b, "\nslot ");
	dp_put_number(b, slot, 10);
	dp_put_text(b, "\n");
}

/* The file of the plan: a sum of the object's inode and the key. */
static void put_name(uint64_t inode, const struct dp_text_buffer *key, struct dp_text_buffer *b)
{
	char digits[24];
	struct dp_text_buffer number = dp_buffer(digits, sizeof digits);
	dp_put_number(&number, inode, 10);
	dp_put_text(&number, "\n");
	uint64_t sum = dp_fnv(dp_fnv(DP_FNV_BEGIN, number.text, number.used), key->text, key->used);
	for (int shift = 60; shift >= 0; shift -= 4)
		dp_put_number(b, sum >> shift & 15, 16);
	dp_put_text(b, ".plan");
}

/* Maps a file that is here, all of it: what cannot be read from disk is an error now, not a
 * signal later (madvise(2); a kernel before 5.14 does not know how). */
static int map_plan(struct dp_planned *o, long fd, uint64_t size)
{
	long at = dp_is_local(fd) ? raw(SYS_mmap, dp_far_below(size), size, PROT_READ, MAP_PRIVATE, fd, 0) : -1;
	if (failed(at))
		return 0;
	if (raw(SYS_madvise, at, size, MADV_POPULATE_READ) != 0) {
		raw(SYS_munmap, at, size);
		return 0;
	}
	o->plan = (const struct dp_plan_file *)at;
	o->plan_size = size;
	o->is_mapped = 1;
	return 1;
}

/* Reads another to pages of our own: nobody can cut it short meanwhile. */
static int read_plan(struct dp_planned *o, long fd, uint64_t size)
{
	long at = raw(SYS_mmap, dp_far_below(size), size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), n = 1;
	if (failed(at))
		return 0;
	o->plan = (const struct dp_plan_file *)at;
	o->plan_size = size;
	raw(SYS_madvise, at, size, MADV_HUGEPAGE); /* 20 MB take 5,000 faults else */
	for (uint64_t have = 0; have < size && n > 0; have += n > 0 ? (uint64_t)n : 0)
		n = raw(SYS_read, fd, at + (long)have, size - have);
	return n > 0;
}

static int may_read(const struct stat *st) { return dp_may_use(st) && st->st_size >= (long)sizeof(struct dp_plan_file) && st->st_size <= LARGEST; }

static int load_plan(struct dp_planned *o, long plans, const char *name)
{
	struct stat st;
	struct timespec now;
	long fd = failed(plans) ? plans : raw(SYS_openat, plans, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (failed(fd))
		return 0;
	int ok = raw(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 && may_read(&st) && (map_plan(o, fd, (uint64_t)st.st_size) || read_plan(o, fd, (uint64_t)st.st_size));
	/* What has been used lately stays (store.Trim); root's stays as it is. */
	if (ok && raw(SYS_clock_gettime, CLOCK_REALTIME, &now) == 0 && now.tv_sec - st.st_mtim.tv_sec > DAY)
		raw(SYS_utimensat, fd, 0, 0, 0);
	raw(SYS_close, fd);
	return ok;
}

static int has_key(const struct dp_planned *o, const struct dp_text_buffer *key)
{
	const struct dp_plan_part *k = &o->plan->key;
	return k->count == key->used && same_bytes(dp_part(o->plan, k), key->text, key->used);
}

static void drop_plan(struct dp_planned *o)
{
	if (o->plan)
		raw(SYS_munmap, o->plan, o->plan_size);
	o->plan = 0;
	o->is_mapped = 0;
}

/* A plan with a name and a key, and its name. What that takes of the stack is given back before
 * anything else is looked at: a program may load a library on a small one. */
static __attribute__((noinline)) int find_named(struct dp_warm *w, struct dp_planned *o, long plans, uint64_t slot, struct dp_text_buffer *name)
{
	char text[256];
	struct dp_text_buffer key = dp_buffer(text, sizeof text);
	put_key(w, o, slot, &key);
	put_name(o->files->inode, &key, name);
	return !key.bad && !name->bad && load_plan(o, plans, name->text) && dp_take_place(w, o) && dp_plan_is_sound(o->plan, o->plan_size) && has_key(o, &key);
}

/* The plan with the arena in a slot that is free. What is in a file that is not checked yet
 * can at worst make it look taken. */
static int find_plan_in(struct dp_warm *w, struct dp_planned *o, long plans, uint64_t slot)
{
	char path[32];
	struct dp_text_buffer name = dp_buffer(path, sizeof path);
	int ok = find_named(w, o, plans, slot, &name) && dp_plan_is_of(w, o);
	if (ok)
		dp_map_copy(w, o, plans, path);
	return ok;
}

static int find_plan(struct dp_warm *w, struct dp_planned *o)
{
	for (uint64_t slot = 0; slot <= SLOTS; slot++)
		for (int i = 0; i < 2; i++) {
			if (find_plan_in(w, o, w->plans[i], slot))
				return 1;
			dp_leave_place(o);
			drop_plan(o);
		}
	return 0;
}

int dp_find_plans(struct dp_warm *w)
{
	if (!planner.size || !open_directories(w) || !dp_read_maps(&w->maps) || !note_objects(w))
		return 0;
	w->pagemap = dp_open_kernels(AT_FDCWD, "/proc/self/pagemap", O_RDONLY);
	for (uint32_t i = 0; i < w->count; i++)
		if (!find_plan(w, &w->objects[i]))
			return 0;
	return 1;
}

/* Pages of the process's own take the place of those of a file, which somebody may cut short
 * or write over as long as the program runs. Returns 0 if there is no memory. */
static int own(uint64_t low, uint64_t size)
{
	long copy = raw(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (failed(copy))
		return 0;
	dp_copy_bytes((void *)copy, (const void *)low, size);
	long at = raw(SYS_mremap, copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, low);
	if (failed(at))
		raw(SYS_munmap, copy, size);
	return !failed(at);
}

/* Unmaps a plan but for its lists of changes, which stay in use. */
static void keep_lists(struct dp_planned *o)
{
	uint64_t low, high, at = (uint64_t)o->plan, end = at + pages(o->plan_size);
	dp_find_lists(o, &low, &high);
	if (low >= high) {
		drop_plan(o);
		return;
	}
	if (o->is_mapped)
		own(low, high - low); /* without memory they stay where they are */
	raw(SYS_mprotect, low, high - low, PROT_READ);
	if (low > at)
		raw(SYS_munmap, at, low - at);
	if (end > high)
		raw(SYS_munmap, high, end - high);
}

void dp_drop_plans(struct dp_warm *w, int but_lists)
{
	for (uint32_t i = 0; i < w->count; i++)
		if (but_lists)
			keep_lists(&w->objects[i]);
		else
			drop_plan(&w->objects[i]);
	if (w->objects)
		raw(SYS_munmap, w->objects, w->room);
	const long open[] = {w->plans[0], w->plans[1], w->pagemap};
	for (unsigned i = 0; i < sizeof open / sizeof *open; i++)
		if (!failed(open[i]))
			raw(SYS_close, open[i]);
	dp_drop_maps(&w->maps);
}
