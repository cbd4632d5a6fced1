/* Giving text back to a program that is about to change it. */
#ifndef DYNPROF_GIVEBACK_H
#define DYNPROF_GIVEBACK_H

#include "base/ctl.h"
#include "base/raw.h"
#include "base/regs.h"

enum { DP_MOST_CHANGED = 6 }; /* bytes, by one change */

/* One change of text (patcher/patch/undo.go). */
struct dp_undo {
	uint32_t at;    /* offset from the text's start */
	uint32_t group; /* as those of struct dp_patch */
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

/* A run of pages that was patched, with its changes in order of at. */
struct dp_undo_text {
	uint64_t start, size;
	uint64_t file, offset; /* char *, where in the file the pages are */
	uint64_t undos;        /* struct dp_undo * */
	uint32_t count;
	uint32_t prot;
	uint64_t longest; /* bytes that the longest of them reaches */
};

/* What of a change lies in a range. */
struct dp_piece {
	uint64_t at;
	const uint8_t *old, *new;
	uint64_t len;
};

/* What a session has patched may have to be given back. */
void dp_note_undos(const struct dp_ctl *ctl) HIDDEN;

/* Objects have been closed: what was patched in them need not be given back. */
void dp_forget_undos(void) HIDDEN;

/* Called with the registers of an mprotect or pkey_mprotect that is to come. */
void dp_text_changes(const struct dp_regs *r) HIDDEN;
/* Whether a change of a function's is in the range, or right in front of it. */
int dp_is_patched(uint64_t low, uint64_t high) HIDDEN;
/* Whether there is what tells of stubs and of patches. */
int dp_has_data(uint64_t low, uint64_t high) HIDDEN;

/* The same of a site. */
int dp_has_site(uint64_t low, uint64_t high) HIDDEN;
/* Gives back what concerns the range. */
void dp_give_range(uint64_t low, uint64_t high) HIDDEN;
/* The first change that is made and can be told from the program's bytes in the
 * range, which may have a half of it; 0: none. */
int dp_change_in(uint64_t low, uint64_t high, struct dp_piece *p) HIDDEN;
/* The first page of the range with bytes of ours; high: none. */
uint64_t dp_patched_page(uint64_t low, uint64_t high) HIDDEN;
/* Whether there is memory with these bytes at an address. */
int dp_is_here(uint64_t at, const uint8_t *bytes, uint64_t n) HIDDEN;
/* Gives everything back. Reports whether nothing of ours is left in the text. */
int dp_give_all(void) HIDDEN;
/* Whether an address is in text that was patched. */
int dp_is_text(uint64_t address) HIDDEN;
/* The first text at or behind an address that was patched; 0: there is none. */
int dp_next_text(uint64_t from, uint64_t *low, uint64_t *high) HIDDEN;
/* A system call of the program, as it was, in the text that address is in; 0: there
 * is none behind a site. */
uint64_t dp_syscall_near(uint64_t address) HIDDEN;
/* The same of one with a return behind it. */
uint64_t dp_returning_near(uint64_t address) HIDDEN;

static inline int dp_is_syscall(uint64_t at) { return *(const uint8_t *)at == 0x0f && *(const uint8_t *)(at + 1) == 0x05; }

/* This process is new: nobody else is in it. */
void dp_giveback_forked(void) HIDDEN;

#endif
