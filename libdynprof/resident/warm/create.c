/* Makes the table (internal/table/build): what the planner's would say. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/pages.h"
#include "table/newtable.h"
#include "warm/identity.h"
#include "warm/output.h"
#include "warm/sink.h"
#include "warm/warm.h"

/* ---- what is in it ------------------------------------------------------ */

static uint64_t stored(const char *s) { return *s ? text_len(s) + 1 : 0; }

static uint64_t stored_part(const struct dp_plan_part *s) { return s->count ? s->count + 1ull : 0; }

/* Strings and aliases of plans begin with the empty one, which the table has already. */
static struct dp_new_table measure(const struct dp_warm *w)
{
	const struct dp_planned *main = &w->objects[0];
	struct dp_new_table n = {.objects = w->count, .functions = w->functions, .counters = w->counters, .aliases = 1, .has_threshold = w->choice.threshold > 0};
	n.strings = 1 + stored(main->path) + stored_part(&main->plan->creator);
	n.short_space = w->ctl->short_space != 0;
	for (uint32_t i = 0; i < w->count; i++) {
		const struct dp_planned *o = &w->objects[i];
		n.strings += stored(o->path) + (o->plan->build_id.count ? 2ull * o->plan->build_id.count + 1 : 0) + o->plan->strings.count - 1;
		n.aliases += o->plan->aliases.count - 1ull;
	}
	return n;
}

/* The sections that are written, each in order, and the strings' next offset. */
struct sections {
	struct dp_sink objects, functions, aliases, strings;
	uint32_t next_string, next_alias;
};

static struct dp_sink sink_at(long fd, const struct dp_section *s, uint8_t *room) { return (struct dp_sink){.fd = fd, .at = s->offset, .room = room}; }

/* Adds n bytes and a NUL, and returns where they are among the strings; none is 0. */
static uint32_t add_string(struct sections *s, const void *text, uint64_t n)
{
	uint32_t at = s->next_string;
	if (n == 0)
		return 0;
	dp_sink_put(&s->strings, text, n);
	dp_sink_put(&s->strings, "", 1);
	s->next_string += (uint32_t)n + 1;
	return at;
}

static uint32_t add_build_id(struct sections *s, const struct dp_plan_file *p)
{
	static const char digit[] = "0123456789abcdef";
	const uint8_t *id = dp_part(p, &p->build_id);
	uint32_t at = s->next_string, n = p->build_id.count;
	for (uint32_t i = 0; i < n; i++) {
		char two[2] = {digit[id[i] >> 4], digit[id[i] & 15]};
		dp_sink_put(&s->strings, two, sizeof two);
	}
	if (n == 0)
		return 0;
	dp_sink_put(&s->strings, "", 1);
	s->next_string += 2 * n + 1;
	return at;
}

/* An object's arena is the next that has code. */
static void add_object(struct sections *s, const struct dp_planned *o)
{
	const struct dp_plan_file *p = o->plan;
	struct dp_object_entry e = {
		.bias = dp_bias(o), .arena = p->arena_size ? p->arena + dp_bias(o) : 0, .low = o->loaded->low, .high = o->loaded->high,
		.flags = p->flags | DP_OBJ_CACHED | (o->is_main ? DP_OBJ_MAIN : 0), .reason = (uint8_t)p->reason, .code = p->code, .untold = p->untold,
	};
	e.path = add_string(s, o->path, text_len(o->path));
	e.build_id = add_build_id(s, p);
	dp_sink_put(&s->objects, &e, sizeof e);
}

static void add_functions(struct sections *s, const struct dp_planned *o, uint16_t number, uint32_t strings, uint32_t aliases)
{
	const struct dp_function *from = dp_part(o->plan, &o->plan->functions);
	for (uint32_t i = 0; i < o->plan->functions.count; i++) {
		struct dp_function *f = dp_sink_next(&s->functions, sizeof *f);
		*f = from[i];
		f->object = number;
		f->name += f->name ? strings : 0;
		f->aliases += f->aliases ? aliases : 0;
		f->counter += f->counter != DP_NO_COUNTER ? o->counters : 0;
	}
}

static void add_aliases(struct sections *s, const struct dp_plan_file *p, uint32_t strings)
{
	const uint32_t *from = dp_part(p, &p->aliases);
	for (uint32_t i = 1; i < p->aliases.count; i++) {
		uint32_t *to = dp_sink_next(&s->aliases, sizeof *to);
		*to = from[i] + (from[i] ? strings : 0);
	}
}

/* What is behind the empty string and the empty list of the object's goes behind what
 * is there. */
static void add_ledger(struct sections *s, const struct dp_planned *o, uint16_t number)
{
	const struct dp_plan_file *p = o->plan;
	add_functions(s, o, number, s->next_string - 1, s->next_alias - 1);
	add_aliases(s, p, s->next_string - 1);
	dp_sink_put(&s->strings, (const uint8_t *)dp_part(p, &p->strings) + 1, p->strings.count - 1);
	s->next_string += p->strings.count - 1;
	s->next_alias += p->aliases.count - 1;
}

static int write_sections(const struct dp_warm *w, long fd, struct dp_header *h, uint8_t *room)
{
	struct sections s = {
		sink_at(fd, &h->objects, room), sink_at(fd, &h->functions, room + DP_SINK_ROOM),
		sink_at(fd, &h->aliases, room + 2 * DP_SINK_ROOM), sink_at(fd, &h->strings, room + 3 * DP_SINK_ROOM), 1, 1,
	};
	const struct dp_planned *main = &w->objects[0];
	static const uint32_t none;
	dp_sink_put(&s.strings, "", 1);
	dp_sink_put(&s.aliases, &none, sizeof none);
	h->program = add_string(&s, main->path, text_len(main->path));
	h->creator = add_string(&s, dp_part(main->plan, &main->plan->creator), main->plan->creator.count);
	for (uint32_t i = 0; i < w->count; i++)
		add_object(&s, &w->objects[i]);
	for (uint32_t i = 0; i < w->count; i++)
		add_ledger(&s, &w->objects[i], (uint16_t)i);
	int ok = dp_sink_flush(&s.objects);
	ok &= dp_sink_flush(&s.functions);
	ok &= dp_sink_flush(&s.aliases);
	return dp_sink_flush(&s.strings) && ok;
}

/* ---- the file ----------------------------------------------------------- */

static void fill_header(const struct dp_warm *w, struct dp_header *h)
{
	const struct dp_choice *c = &w->choice;
	dp_copy_bytes(h->magic, DP_MAGIC, sizeof h->magic);
	h->version = DP_VERSION;
	h->header_size = DP_HEADER_SIZE;
	h->flags = DP_FLAG_WARM | (c->threshold ? DP_FLAG_THRESHOLD : 0) | (c->follow_exec ? DP_FLAG_FOLLOW_EXEC : 0);
	h->threshold = c->threshold;
	dp_copy_bytes(h->run_id, c->run_id, sizeof h->run_id);
	dp_identify(h, w->ctl->pid);
}

/* Takes the room on disk that the program will store into without being able to handle an
 * error. Where the file system does not know how, the planner does. */
static int take_room(long fd, const struct dp_header *h)
{
	const struct dp_section *whole[] = {&h->missed, &h->formers, &h->events};
	for (unsigned i = 0; i < sizeof whole / sizeof *whole; i++)
		if (raw(SYS_fallocate, fd, 0, whole[i]->offset, (uint64_t)whole[i]->capacity * whole[i]->entry_size) != 0)
			return 0;
	for (uint64_t i = 0; i < h->rows_reserved; i++)
		if (raw(SYS_fallocate, fd, 0, h->rows.offset + i * h->rows.entry_size, DP_ROW_COUNTERS + 8ull * h->counters) != 0)
			return 0;
	int fired = (h->flags & DP_FLAG_THRESHOLD) && h->counters;
	return !fired || raw(SYS_fallocate, fd, 0, h->fired.offset, 4ull * h->counters) == 0;
}

/* The header, without which there is no table, comes last. */
static int write_table(const struct dp_warm *w, long fd, struct dp_header *h, uint8_t *room)
{
	struct dp_new_table n = measure(w);
	if (!dp_lay_table(h, &n) || raw(SYS_ftruncate, fd, h->file_size) != 0)
		return 0;
	fill_header(w, h);
	if (raw(SYS_getrandom, h->nonce, sizeof h->nonce, 1 /* GRND_NONBLOCK */) != sizeof h->nonce || !take_room(fd, h))
		return 0;
	return write_sections(w, fd, h, room) && raw(SYS_pwrite64, fd, h, DP_HEADER_SIZE, 0) == DP_HEADER_SIZE;
}

/* A file that grows beyond the limit would raise SIGXFSZ. */
static int is_unlimited(void)
{
	struct rlimit size = {0, 0};
	return raw(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &size) == 0 && size.rlim_cur == RLIM_INFINITY;
}

int dp_make_table(struct dp_warm *w)
{
	struct dp_ctl *ctl = w->ctl;
	struct dp_output o = {w->objects[0].path, ctl->pid};
	struct dp_text_buffer path = dp_buffer(ctl->table, sizeof ctl->table);
	if (!is_unlimited() || !dp_put_output(&path, &w->choice, &o))
		return 0;
	uint64_t size = DP_HEADER_SIZE + 4 * DP_SINK_ROOM;
	long room = raw(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long fd = failed(room) ? room : dp_create_output(ctl->table, sizeof ctl->table);
	int ok = !failed(fd);
	if (ok) {
		struct dp_header *h = (struct dp_header *)room;
		ok = write_table(w, fd, h, (uint8_t *)room + DP_HEADER_SIZE);
		raw(SYS_close, fd);
		dp_copy_bytes(ctl->nonce, h->nonce, sizeof ctl->nonce);
		if (!ok)
			raw(SYS_unlinkat, AT_FDCWD, ctl->table, 0);
	}
	if (!failed(room))
		raw(SYS_munmap, room, size);
	return ok;
}
