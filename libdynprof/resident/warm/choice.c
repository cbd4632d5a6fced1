/* See choice.h. */
#include "warm/choice.h"

/* What a variable is to us. */
enum kind {
	PLANNED,  /* a planner reads it, unless it is empty */
	OFF,      /* or unless it is a switch that is off */
	HARMLESS, /* others read it */
	CACHE_HOME, RUNTIME_DIR, HOME, OUTPUT, OBJECTS, THRESHOLD, RUN_ID, KEEP_CALLS, BLOCKS, BLOCKS_OF, EDGES, TRIPS, FOLLOW_EXEC, CACHE, TEXT_COPIES,
};

/* The names are in place: a pointer would have to be relocated. */
static const struct variable {
	char name[24];
	uint8_t kind;
} variables[] = {
	{"XDG_CACHE_HOME", CACHE_HOME}, {"XDG_RUNTIME_DIR", RUNTIME_DIR}, {"HOME", HOME},
	{"DYNPROF_OUTPUT", OUTPUT}, {"DYNPROF_OBJECTS", OBJECTS}, {"DYNPROF_THRESHOLD", THRESHOLD},
	{"DYNPROF_RUN_ID", RUN_ID}, {"DYNPROF_KEEP_CALLS", KEEP_CALLS}, {"DYNPROF_FOLLOW_EXEC", FOLLOW_EXEC}, {"DYNPROF_FOLLOW_SELF", HARMLESS},
	{"DYNPROF_ARGS", OFF}, {"DYNPROF_PERF_MAP", OFF}, {"DYNPROF_CONTROL", OFF}, {"DYNPROF_ALLOW_TRAPS", OFF}, {"DYNPROF_LOCK", OFF}, {"DYNPROF_BLOCKS", BLOCKS},
	{"DYNPROF_BLOCKS_OF", BLOCKS_OF}, {"DYNPROF_EDGES", EDGES}, {"DYNPROF_TRIPS", TRIPS}, {"DYNPROF_HEAT", HARMLESS},
	{"DYNPROF_REGIONS", HARMLESS}, {"DYNPROF_REGION", HARMLESS},
	{"DYNPROF_CACHE", CACHE}, {"DYNPROF_TEXT_COPIES", TEXT_COPIES}, {"DYNPROF_STRICT", HARMLESS}, {"DYNPROF_NOTE", HARMLESS}, {"DYNPROF_PAD", HARMLESS},
	{"DYNPROF_LIBRARY", HARMLESS}, {"DYNPROF_PRELOADED", HARMLESS}, {"DYNPROF_HOTSPOTS", HARMLESS},
};

/* The kind of the variable that an entry NAME=value sets, and its value. */
static enum kind kind_of(const char *entry, const char **value)
{
	for (unsigned i = 0; i < sizeof variables / sizeof *variables; i++) {
		const char *name = variables[i].name, *e = entry;
		while (*name && *name == *e)
			name++, e++;
		if (!*name && *e == '=') {
			*value = e + 1;
			return variables[i].kind;
		}
	}
	while (*entry && *entry++ != '=')
		;
	*value = entry;
	return PLANNED;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 'a' - 'A';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_run_id(const char *value, struct dp_choice *c)
{
	for (int i = 0; i < 16; i++, value += 2) {
		int high = hex_digit(value[0]), low = high < 0 ? -1 : hex_digit(value[1]);
		if (low < 0)
			return 0;
		c->run_id[i] = (uint8_t)(high << 4 | low);
	}
	return 1;
}

/* One number for all functions. */
static int read_threshold(const char *value, struct dp_choice *c)
{
	uint64_t n = 0;
	for (; *value >= '0' && *value <= '9' && n <= INT32_MAX; value++)
		n = 10 * n + (uint64_t)(*value - '0');
	c->threshold = (uint32_t)n;
	return !*value && n > 0 && n <= INT32_MAX;
}

/* Returns whether we can do what the variable asks for. */
static int take(enum kind kind, const char *value, struct dp_choice *c)
{
	switch (kind) {
	case PLANNED:
		return 0;
	case OFF:
		return !dp_is_on(value);
	case CACHE_HOME:
		c->cache_home = value;
		return 1;
	case RUNTIME_DIR:
		c->runtime_dir = value;
		return 1;
	case HOME:
		c->home = value;
		return 1;
	case OUTPUT:
		c->output = value;
		return 1;
	case OBJECTS:
		c->all = 1;
		return same_text(value, "all");
	case THRESHOLD:
		return read_threshold(value, c);
	case RUN_ID:
		return read_run_id(value, c);
	case KEEP_CALLS:
		c->keep_calls = dp_is_on(value);
		return 1;
	case BLOCKS:
		c->blocks = dp_is_on(value);
		return 1;
	case BLOCKS_OF: /* functions by name are not kept */
		c->hot = same_text(value, "hot");
		return c->hot;
	case EDGES:
		c->edges = dp_is_on(value);
		return 1;
	case TRIPS:
		c->trips = dp_is_on(value);
		return 1;
	case CACHE:
		value += has_prefix(value, "only:") ? sizeof "only:" - 1 : 0;
		c->plans = *value == '/' ? value : 0;
		return 1;
	case TEXT_COPIES:
		c->text_copies = dp_is_on(value);
		return 1;
	case FOLLOW_EXEC:
		c->follow_exec = dp_is_on(value);
		return 1;
	default:
		return 1;
	}
}

int dp_read_choice(const struct dp_ctl *ctl, struct dp_choice *c)
{
	if (ctl->allocator_entry)
		return 0; /* no plan has what leads there */
	uint32_t seen = 0; /* the first of a name counts, and an empty value is as good as none */
	*c = (struct dp_choice){0};
	for (uint32_t i = 0; i < ctl->vars_count; i++) {
		const char *value;
		enum kind kind = kind_of((const char *)ctl->vars[i], &value);
		int once = kind >= CACHE_HOME;
		if (!*value || (once && seen >> kind & 1))
			continue;
		if (!take(kind, value, c))
			return 0;
		seen |= once ? 1U << kind : 0;
	}
	enum { USUAL_HOT = 1000 }; /* as usualHot there */
	c->blocks |= c->trips | c->hot | (ctl->heat != DP_HEAT_NONE);
	if (c->hot && !c->threshold)
		c->threshold = USUAL_HOT;
	return 1;
}
