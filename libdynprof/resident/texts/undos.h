/* Changes of text: to be made, and, once they are, to be taken back. */
#ifndef DYNPROF_UNDOS_H
#define DYNPROF_UNDOS_H

#include "base/ctl.h"
#include "base/raw.h"

enum { DP_MOST_CHANGED = 6 }; /* bytes, by one change */

#define DP_NO_GROUP 0xffffffffu
#define DP_SIGNAL_SITES 0xfffffffeu /* the group of all signal sites, which traps need */

/* A change of text, as it is listed (patcher/patch/undo.go). */
struct dp_listed {
	uint32_t at; /* offset from the text's start */
	uint32_t of; /* number of the struct dp_overwritten or, with DP_CALL_BIT, the dp_led */
};

#define DP_CALL_BIT 0x80000000u
#define DP_SLOT_BIT 0x40000000u /* the call went by a slot of the PLT */

/* A patch: bytes to change, if they are still what the planner read. Groups, the
 * patches of one function, are made all or none; a patch that needs another group only if
 * that is made. */
struct dp_overwritten {
	uint32_t group;        /* number of the function in the table, or DP_NO_GROUP */
	uint32_t needs;        /* a group, or DP_NO_GROUP */
	uint16_t moved;        /* what runs elsewhere from there on (dp_span) */
	uint8_t len;           /* of old and new */
	uint8_t kind;          /* DP_UNDO_* */
	uint8_t old[DP_MOST_CHANGED], new[DP_MOST_CHANGED];
};

/* A function whose calls, each a `call rel32` or a `jmp rel32`, are led to its stub, if
 * the group is made and the call is still as the planner read it. A change is of a call's
 * displacement. Offsets are from the text's start. */
struct dp_led {
	uint32_t group;
	uint32_t entry, stub; /* entry: or the jump of the PLT that leads there */
};

/* A change of text, whatever it is of. */
struct dp_undo {
	uint32_t at;    /* offset from the text's start */
	uint32_t group; /* as those of struct dp_overwritten */
	uint32_t needs;
	uint16_t moved; /* what runs elsewhere from at on (dp_span) */
	uint8_t len;    /* of old and new */
	uint8_t kind;   /* DP_UNDO_* */
	uint8_t old[DP_MOST_CHANGED], new[DP_MOST_CHANGED];
};

/* Bytes of text in 16 bits: many in units of 64 KB (patcher/patch/undo.go). */
enum { DP_SPAN_UNITS = 0x8000, DP_SPAN_UNIT = 1 << 16 };
static inline uint64_t dp_span(uint16_t n) { return n & DP_SPAN_UNITS ? (uint64_t)(n & ~DP_SPAN_UNITS) * DP_SPAN_UNIT : n; }

enum { DP_UNDO_FIRST, DP_UNDO_ISLAND, DP_UNDO_CALL, DP_UNDO_SITE };

/* A run of pages that is patched, with its changes in order of at. */
struct dp_undo_text {
	uint64_t start, size;
	uint64_t file, offset; /* char *, where in the file the pages are */
	uint64_t list, overwritten, leds; /* pointers */
	uint32_t count; /* of list */
	uint32_t prot;  /* PROT_* to restore */
	uint64_t longest; /* bytes that the longest of them reaches */
	uint32_t functions, functions_end; /* the groups of its changes, and those they need, are among these */
	uint32_t base;  /* what is added to groups in the lists */
	uint32_t unused;
	uint64_t kept, kept_end; /* pages that the lists are on, if that is not where this is (warm/lay.c) */
};

/* Makes sure that what a session patches can be noted. Returns 0 if there is no memory. */
int dp_make_undos(const struct dp_ctl *ctl) HIDDEN;
/* What a session has patched may have to be given back. */
void dp_note_undos(const struct dp_ctl *ctl) HIDDEN;

/* Objects have been closed: what was patched in them need not be given back, and what we have
 * mapped for them is unmapped, unless others refer to those texts. The dynamic linker's lock is held. */
void dp_forget_undos(int (*refers)(const struct dp_undo_text *first, uint64_t count)) HIDDEN;

/* Whether any session has patched text, and noted it. */
int dp_has_undos(void) HIDDEN;

/* Whether there is what tells of stubs and of patches. */
int dp_has_data(uint64_t low, uint64_t high) HIDDEN;

/* Goes through the texts that overlap [low, high): as a for's head. */
struct dp_text_walk {
	uint64_t low, high;
	const struct dp_sessions *sessions;
	uint64_t session, text;
};
struct dp_text_walk dp_walk_texts(uint64_t low, uint64_t high) HIDDEN;
const struct dp_undo_text *dp_walk_on(struct dp_text_walk *w) HIDDEN;

/* The group that a list of t has as that. */
static inline uint32_t dp_group(const struct dp_undo_text *t, uint32_t listed) { return listed >= DP_SIGNAL_SITES ? listed : listed + t->base; }

static inline const struct dp_listed *dp_listed_of(const struct dp_undo_text *t) { return (const struct dp_listed *)t->list; }
static inline int dp_is_call(const struct dp_undo_text *t, uint32_t i) { return (dp_listed_of(t)[i].of & DP_CALL_BIT) != 0; }
static inline int dp_is_by_slot(const struct dp_undo_text *t, uint32_t i) { return (dp_listed_of(t)[i].of & DP_SLOT_BIT) != 0; }
static inline uint64_t dp_change_at(const struct dp_undo_text *t, uint32_t i) { return t->start + dp_listed_of(t)[i].at; }

static inline const struct dp_overwritten *dp_overwritten_of(const struct dp_undo_text *t, uint32_t i)
{
	return (const struct dp_overwritten *)t->overwritten + dp_listed_of(t)[i].of;
}
static inline const struct dp_led *dp_led_of(const struct dp_undo_text *t, uint32_t i)
{
	return (const struct dp_led *)t->leds + (dp_listed_of(t)[i].of & ~(DP_CALL_BIT | DP_SLOT_BIT));
}

/* The displacement of a call at an offset, as it was and to the stub: that follows from
 * where it is. */
static inline uint32_t dp_call_old(const struct dp_led *led, uint32_t at) { return led->entry - (at + (uint32_t)sizeof(uint32_t)); }
static inline uint32_t dp_call_new(const struct dp_led *led, uint32_t at) { return led->stub - (at + (uint32_t)sizeof(uint32_t)); }

/* Change i of a text. */
struct dp_undo dp_undo_of(const struct dp_undo_text *t, uint32_t i) HIDDEN;

/* The first change that may concern code at or behind an address. */
uint32_t dp_first_near(const struct dp_undo_text *t, uint64_t address) HIDDEN;

/* What the kernel was last asked about: a page, or several that are there. */
struct dp_page {
	uint64_t at, behind;
	int there; /* it can be read */
};

#define DP_NO_PAGE ((struct dp_page){0}) /* none yet */

/* Whether there is memory at an address that can be read. */
int dp_is_there(struct dp_page *p, uint64_t at) HIDDEN;
/* Whether the change u is made. */
int dp_is_made(struct dp_page *p, const struct dp_undo_text *t, const struct dp_undo *u) HIDDEN;

/* Whether the change u, at or in front of low, is made, and reaches behind low with
 * its bytes or what it has moved. */
int dp_concerns(struct dp_page *p, const struct dp_undo_text *t, const struct dp_undo *u, uint64_t low) HIDDEN;

#endif
