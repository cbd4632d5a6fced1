/* See ledger.h. */
#include "warm/ledger.h"

static uint64_t stored(const char *s) { return *s ? text_len(s) + 1 : 0; }

void dp_measure_ledgers(const struct dp_warm *w, struct dp_ledger_size *n)
{
	*n = (struct dp_ledger_size){0};
	for (uint32_t i = 0; i < w->count; i++) {
		const struct dp_planned *o = &w->objects[i];
		n->strings += stored(o->path) + (o->plan->build_id.count ? 2ull * o->plan->build_id.count + 1 : 0) + o->plan->strings.count - 1;
		n->aliases += o->plan->aliases.count - 1ull;
		n->blocks += o->plan->blocks.count;
		n->ways += o->plan->ways.count;
		n->loops += o->plan->loops.count;
		n->sites += o->plan->sites.count;
	}
}

static struct dp_sink sink_of(const struct dp_ledger *to, const struct dp_section *s, uint32_t number)
{
	uint64_t behind = to->mapped ? (uint64_t)s->count * s->entry_size : 0;
	return (struct dp_sink){.fd = to->fd, .mapped = to->mapped, .at = s->offset + behind, .room = to->room + (uint64_t)number * DP_SINK_ROOM};
}

void dp_begin_ledger(struct dp_ledger *s, const struct dp_header *h)
{
	s->objects = sink_of(s, &h->objects, 0);
	s->functions = sink_of(s, &h->functions, 1);
	s->aliases = sink_of(s, &h->aliases, 2);
	s->strings = sink_of(s, &h->strings, 3);
	s->blocks = sink_of(s, &h->blocks, 4);
	s->ways = sink_of(s, &h->ways, 5);
	s->loops = sink_of(s, &h->loops, 6);
	s->sites = sink_of(s, &h->sites, 7);
	s->next_string = s->mapped ? h->strings.count : 0;
	s->next_alias = s->mapped ? h->aliases.count : 0;
	s->next_block = s->mapped ? h->blocks.count : 0;
	s->next_loop = s->mapped ? h->loops.count : 0;
}

uint32_t dp_add_string(struct dp_ledger *s, const void *text, uint64_t n)
{
	uint32_t at = s->next_string;
	if (n == 0)
		return 0;
	dp_sink_put(&s->strings, text, n);
	dp_sink_put(&s->strings, "", 1);
	s->next_string += (uint32_t)n + 1;
	return at;
}

static uint32_t add_build_id(struct dp_ledger *s, const struct dp_plan_file *p)
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
static void add_object(struct dp_ledger *s, const struct dp_planned *o, uint32_t flags)
{
	const struct dp_plan_file *p = o->plan;
	struct dp_object_entry e = {
		.bias = dp_bias(o), .arena = p->arena_size ? p->arena + dp_bias(o) : 0, .low = o->loaded->low, .high = o->loaded->high,
		.codes = o->told_codes ? o->codes : 0, .code_count = o->told_codes,
		.flags = p->flags | DP_OBJ_CACHED | flags | (o->is_main ? DP_OBJ_MAIN : 0), .reason = (uint8_t)p->reason, .code = p->code, .untold = p->untold,
	};
	if (p->sets) {
		e.sets = p->sets;
		e.slots = o->block_counters + p->of_blocks - p->sets * DP_SET_WORDS;
	}
	e.path = dp_add_string(s, o->path, text_len(o->path));
	e.build_id = add_build_id(s, p);
	dp_sink_put(&s->objects, &e, sizeof e);
}

static void add_functions(struct dp_ledger *s, const struct dp_planned *o, uint16_t number, uint32_t strings, uint32_t aliases)
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

static void add_aliases(struct dp_ledger *s, const struct dp_plan_file *p, uint32_t strings)
{
	const uint32_t *from = dp_part(p, &p->aliases);
	for (uint32_t i = 1; i < p->aliases.count; i++) {
		uint32_t *to = dp_sink_next(&s->aliases, sizeof *to);
		*to = from[i] + (from[i] ? strings : 0);
	}
}

/* What is behind the empty string and the empty list of the object's goes behind what
 * is there. */
static void add_ledger(struct dp_ledger *s, const struct dp_planned *o, uint16_t number)
{
	const struct dp_plan_file *p = o->plan;
	add_functions(s, o, number, s->next_string - 1, s->next_alias - 1);
	add_aliases(s, p, s->next_string - 1);
	dp_sink_put(&s->strings, (const uint8_t *)dp_part(p, &p->strings) + 1, p->strings.count - 1);
	s->next_string += p->strings.count - 1;
	s->next_alias += p->aliases.count - 1;
}

int dp_put_ledgers(struct dp_ledger *s, const struct dp_warm *w, uint32_t number, uint32_t flags)
{
	for (uint32_t i = 0; i < w->count; i++)
		add_object(s, &w->objects[i], flags);
	for (uint32_t i = 0; i < w->count; i++)
		add_ledger(s, &w->objects[i], (uint16_t)(number + i));
	int ok = dp_sink_flush(&s->objects);
	ok &= dp_sink_flush(&s->functions);
	ok &= dp_sink_flush(&s->aliases);
	return dp_sink_flush(&s->strings) && ok;
}

/* ---- blocks ------------------------------------------------------------- */

/* The numbers of an object's first block, loop and counter of them, in the table. */
struct firsts {
	uint32_t block, loop, counter;
};

/* Number n of a list, in that of all; none, which is the greatest number, stays that. */
static uint32_t shifted(uint32_t first, uint32_t n) { return n == DP_NO_BLOCK ? n : first + n; }
_Static_assert(DP_NO_BLOCK == DP_NO_LOOP && DP_NO_BLOCK == DP_NO_COUNTER, "shifted");

static void add_blocks(struct dp_ledger *s, const struct dp_planned *o, const struct firsts *at)
{
	const struct dp_block *from = dp_part(o->plan, &o->plan->blocks);
	for (uint32_t i = 0; i < o->plan->blocks.count; i++) {
		struct dp_block *b = dp_sink_next(&s->blocks, sizeof *b);
		*b = from[i];
		b->function += o->functions;
		b->counter = shifted(at->counter, b->counter);
		b->after = shifted(at->block, b->after);
		b->loop = shifted(at->loop, b->loop);
		b->callee += b->flags & DP_BLOCK_NOTE ? at->counter : b->callee ? o->functions : 0;
	}
}

static void add_ways(struct dp_ledger *s, const struct dp_planned *o, const struct firsts *at)
{
	const struct dp_way *from = dp_part(o->plan, &o->plan->ways);
	for (uint32_t i = 0; i < o->plan->ways.count; i++) {
		struct dp_way *way = dp_sink_next(&s->ways, sizeof *way);
		*way = from[i];
		way->from = shifted(at->block, way->from);
		way->to = shifted(at->block, way->to);
		way->counter = shifted(at->counter, way->counter);
	}
}

static void add_loops(struct dp_ledger *s, const struct dp_planned *o, const struct firsts *at)
{
	const struct dp_loop *from = dp_part(o->plan, &o->plan->loops);
	for (uint32_t i = 0; i < o->plan->loops.count; i++) {
		struct dp_loop *l = dp_sink_next(&s->loops, sizeof *l);
		*l = from[i];
		l->header = shifted(at->block, l->header);
		l->parent = shifted(at->loop, l->parent);
		l->trips += l->trips ? at->counter : 0;
	}
}

static void add_sites(struct dp_ledger *s, const struct dp_planned *o, uint32_t counter)
{
	const struct dp_site *from = dp_part(o->plan, &o->plan->sites);
	for (uint32_t i = 0; i < o->plan->sites.count; i++) {
		struct dp_site *site = dp_sink_next(&s->sites, sizeof *site);
		*site = from[i];
		site->caller += o->functions;
		site->callee += o->functions;
		site->counter = shifted(counter, site->counter);
	}
}

int dp_put_flows(struct dp_ledger *s, const struct dp_warm *w)
{
	struct firsts at = {.block = s->next_block, .loop = s->next_loop};
	for (uint32_t i = 0; i < w->count; i++) {
		const struct dp_planned *o = &w->objects[i];
		at.counter = o->block_counters;
		add_blocks(s, o, &at);
		add_ways(s, o, &at);
		add_loops(s, o, &at);
		add_sites(s, o, at.counter);
		at.block += o->plan->blocks.count;
		at.loop += o->plan->loops.count;
	}
	int ok = dp_sink_flush(&s->blocks);
	ok &= dp_sink_flush(&s->ways);
	ok &= dp_sink_flush(&s->sites);
	return dp_sink_flush(&s->loops) && ok;
}
