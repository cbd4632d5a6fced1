/* Giving text back to a program that is about to change it. */
#ifndef DYNPROF_GIVEBACK_H
#define DYNPROF_GIVEBACK_H

#include "base/raw.h"
#include "base/regs.h"

/* Called with the registers of an mprotect or pkey_mprotect that is to come. */
void dp_text_changes(const struct dp_regs *r) HIDDEN;
/* Gives back what concerns the range. */
void dp_give_range(uint64_t low, uint64_t high) HIDDEN;
/* Gives everything back. Reports whether nothing of ours is left in the text. */
int dp_give_all(void) HIDDEN;
/* This process is new: nobody else is in it. */
void dp_giveback_forked(void) HIDDEN;

#endif
