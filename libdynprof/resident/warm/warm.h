/* A start with plans of earlier ones alone: no planner, no copy of the process, no Go
 * (docs/architecture.md, "The plan cache"). It does what the planner does with such plans
 * (patcher/cached.go) and leaves the same in the control block. */
#ifndef DYNPROF_WARM_H
#define DYNPROF_WARM_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/ctl.h"
#include "base/layout.h"
#include "base/plancache.h"
#include "base/raw.h"
#include "warm/choice.h"
#include "warm/maps.h"

/* An object of the program, with the plan that an earlier start has left of it. */
struct dp_planned {
	const struct dp_object *loaded;
	const struct dp_mapping *files; /* its mappings of its file, and those that are */
	uint64_t files_count;	 /* no file's in between */
	const char *path;
	int is_main, selected;
	const struct dp_plan_file *plan;
	uint64_t plan_size;
	int is_mapped;		 /* the plan is the file's pages */
	uint64_t held;		 /* bytes that are taken for its arena */
	uint32_t counters, functions; /* the numbers of its first in the table, */
	uint32_t block_counters; /* and of the first counter that is a block's */
	uint32_t codes, told_codes; /* of its first instruction, if it is told which touch memory, and how many nothing else has */
	uint64_t offset;	 /* of its arena in the reserve */
	struct dp_copy copy, beside[2]; /* its text as it is when it is changed, and what is around it (copy.c) */
};

struct dp_warm {
	struct dp_ctl *ctl;
	struct dp_choice choice;
	struct dp_maps maps;
	struct dp_planned *objects; /* the program's, the executable first */
	uint32_t count;
	uint64_t room;		/* bytes of their list's pages */
	long plans[2];		/* the directories of plans, the user's and the system's, are open as that */
	long pagemap;		/* and that of this process */
	uint8_t *reserve;	/* the pages of the reserve, writable */
	uint64_t used;		/* bytes of it */
	uint32_t counters, functions; /* of all objects */
	uint64_t codes;		/* numbers of instructions */
};

/* The control block is filled in as by a planner, and the table made; or nothing is, and a
 * planner has to be asked (0). */
int dp_warm_start(struct dp_ctl *ctl) HIDDEN;
/* The same for objects that come later, which are added to the table. No other thread may
 * run. */
int dp_warm_late(struct dp_ctl *ctl) HIDDEN;

/* The steps. Each returns 0 if it cannot be done. */
void dp_know_planner(const struct dp_ctl *ctl) HIDDEN; /* plans.c: whose plans are good */
int dp_find_plans(struct dp_warm *w) HIDDEN;   /* plans.c: the directory is opened, each object gets its plan */
void dp_drop_plans(struct dp_warm *w, int but_lists) HIDDEN;
/* The pages of its plan that its lists of changes are on: [low, high). */
void dp_find_lists(const struct dp_planned *o, uint64_t *low, uint64_t *high) HIDDEN;
int dp_plan_is_sound(const struct dp_plan_file *p, uint64_t size) HIDDEN; /* check.c */
int dp_plan_is_of(const struct dp_warm *w, const struct dp_planned *o) HIDDEN; /* match.c: the object is what was planned */
/* content.c: whether its times tell a file from all others of its number, and whether what is in it is what was planned. */
int dp_times_tell(const struct dp_plan_file *p) HIDDEN;
int dp_has_content(const struct dp_planned *o) HIDDEN;
/* The copy of the object's text that is kept beside its plan, whose file has that name, is
 * mapped, if there is one: copy.c */
void dp_map_copy(const struct dp_warm *w, struct dp_planned *o, long plans, const char *name) HIDDEN;
void dp_drop_copy(struct dp_planned *o) HIDDEN;
const struct dp_plan_text *dp_copied_text(const struct dp_plan_file *p) HIDDEN; /* the one with the most changes */
int dp_plans_have_memory(const struct dp_warm *w) HIDDEN; /* memory.c: the limits of its control groups leave enough */
int dp_lay_plans(struct dp_warm *w) HIDDEN;    /* lay.c: arenas and lists, in the reserve */
int dp_make_table(struct dp_warm *w) HIDDEN;   /* create.c */

/* Whether a file is the effective user's or root's, and for no others to write to. */
static inline int dp_may_use(const struct stat *st)
{
	int owned = st->st_uid == 0 || st->st_uid == (uid_t)raw(SYS_geteuid);
	return S_ISREG(st->st_mode) && owned && !(st->st_mode & 022);
}

/* The bytes of a section. */
static inline const void *dp_part(const struct dp_plan_file *p, const struct dp_plan_part *s) { return (const uint8_t *)p + s->offset; }
static inline uint64_t dp_part_size(const struct dp_plan_part *s) { return (uint64_t)s->count * s->entry_size; }

static inline uint64_t dp_bias(const struct dp_planned *o) { return o->loaded->bias; }

#endif
