/* Makes the table (internal/table/build): what the planner's would say. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/pages.h"
#include "base/state.h"
#include "table/newtable.h"
#include "warm/identity.h"
#include "warm/output.h"
#include "warm/ledger.h"
#include "warm/warm.h"

static uint64_t stored(const char *s) { return *s ? text_len(s) + 1 : 0; }

static uint64_t stored_part(const struct dp_plan_part *s) { return s->count ? s->count + 1ull : 0; }

/* With the empty string and the empty list of aliases. */
static struct dp_new_table measure(const struct dp_warm *w)
{
	const struct dp_planned *main = &w->objects[0];
	struct dp_ledger_size all;
	dp_measure_ledgers(w, &all);
	struct dp_new_table n = {
		.objects = w->count, .functions = w->functions, .counters = w->counters, .has_threshold = w->choice.threshold > 0,
		.aliases = 1 + all.aliases, .strings = 1 + stored(main->path) + stored_part(&main->plan->creator) + all.strings,
		.short_space = w->ctl->short_space != 0, .has_blocks = w->choice.blocks,
		.has_sites = dp_counts_calls(&w->choice), .blocks = all.blocks, .ways = all.ways, .loops = all.loops, .sites = all.sites,
	};
	return n;
}

/* The counts are those of the whole table already. */
static int write_sections(const struct dp_warm *w, long fd, struct dp_header *h, uint8_t *room)
{
	const struct dp_planned *main = &w->objects[0];
	static const uint32_t none;
	struct dp_ledger s = {.fd = fd, .room = room};
	dp_begin_ledger(&s, h);
	dp_sink_put(&s.strings, "", 1);
	dp_sink_put(&s.aliases, &none, sizeof none);
	s.next_string = s.next_alias = 1;
	h->program = dp_add_string(&s, main->path, text_len(main->path));
	h->creator = dp_add_string(&s, dp_part(main->plan, &main->plan->creator), main->plan->creator.count);
	return dp_put_ledgers(&s, w, 0, 0) && dp_put_flows(&s, w);
}

/* ---- the file ----------------------------------------------------------- */

/* What is noted of the memory that instructions read and write. */
static uint32_t noted(uint64_t heat)
{
	switch (heat) {
	case DP_HEAT_NONE:
		return 0;
	case DP_HEAT_REGIONS:
	case DP_HEAT_REGIONS_MASKS:
		return DP_FLAG_REGIONS;
	default:
		return DP_FLAG_MEMORY;
	}
}

static void fill_header(const struct dp_warm *w, struct dp_header *h)
{
	const struct dp_choice *c = &w->choice;
	const struct dp_planned *main = &w->objects[0];
	dp_copy_bytes(h->magic, DP_MAGIC, sizeof h->magic);
	h->version = c->hot ? DP_VERSION_SWITCHED : c->trips ? DP_VERSION_TRIPS : c->blocks ? DP_VERSION_BLOCKS : dp_counts_calls(c) ? DP_VERSION_SITES : DP_VERSION;
	h->header_size = DP_HEADER_SIZE;
	h->flags = DP_FLAG_WARM | (c->trips ? DP_FLAG_TRIPS : 0) | noted(w->ctl->heat) | (w->ctl->heat && w->ctl->bases ? DP_FLAG_BASES : 0) | (c->hot ? DP_FLAG_SWITCHED | DP_FLAG_HOT : 0) | (c->threshold ? DP_FLAG_THRESHOLD : 0) | (c->follow_exec ? DP_FLAG_FOLLOW_EXEC : 0);
	h->threshold = c->threshold;
	dp_copy_bytes(h->run_id, c->run_id, sizeof h->run_id);
	if (c->blocks || dp_counts_calls(c)) {
		h->blocks_first = main->block_counters; /* all functions' come in front of them */
		h->blocks_count = w->counters - h->blocks_first;
	}
	dp_identify(h, w->ctl->pid);
}

/* Takes the room on disk that the program will store into without being able to handle an
 * error. Where the file system does not know how, the planner does. */
static int take_room(long fd, const struct dp_header *h)
{
	uint64_t from = h->missed.offset; /* behind it formers and events (table/newtable.c) */
	if (raw(SYS_fallocate, fd, 0, from, section_end(&h->events) - from) != 0)
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
	uint64_t size = DP_HEADER_SIZE + DP_LEDGER_ROOM;
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
