/* What of ours is in text, and what of the program's. */
#ifndef DYNPROF_PATCHED_H
#define DYNPROF_PATCHED_H

#include <stdint.h>

#include "base/raw.h"
#include "texts/undos.h"

/* What of a change lies in a range. */
struct dp_piece {
	uint64_t at, len;
	uint8_t old[DP_MOST_CHANGED], new[DP_MOST_CHANGED];
};

/* Whether a change of a function's is in the range, or right in front of it. */
int dp_is_patched(uint64_t low, uint64_t high) HIDDEN;
/* The same of a site. */
int dp_has_site(uint64_t low, uint64_t high) HIDDEN;
/* Whether text was patched, and nothing of ours is in it any more. */
int dp_is_clean(void) HIDDEN;
/* Whether nothing of ours is in it but at what handlers return to. */
int dp_is_clean_but_for_returns(void) HIDDEN;
/* Whether a change is at such a place. */
int dp_is_return(const struct dp_undo *u) HIDDEN;
/* The first change that is made and can be told from the program's bytes in the
 * range, which may have a half of it; 0: none. */
int dp_change_in(uint64_t low, uint64_t high, struct dp_piece *p) HIDDEN;
/* The first page of the range with bytes of ours; high: none. */
uint64_t dp_patched_page(uint64_t low, uint64_t high) HIDDEN;
/* Whether there is memory with these bytes at an address. */
int dp_is_here(uint64_t at, const uint8_t *bytes, uint64_t n) HIDDEN;
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

#endif
