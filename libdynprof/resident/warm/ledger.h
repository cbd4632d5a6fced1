/* What plans tell of their objects, into a table's sections. */
#ifndef DYNPROF_LEDGER_H
#define DYNPROF_LEDGER_H

#include "warm/sink.h"
#include "warm/warm.h"

enum { DP_LEDGER_ROOM = 8 * DP_SINK_ROOM };

/* The sections that are written, each in order, and the strings' next offset. */
struct dp_ledger {
	long fd;         /* of a new table, */
	uint8_t *mapped; /* or where one is mapped that others read; else 0 */
	uint8_t *room;   /* DP_LEDGER_ROOM bytes */
	struct dp_sink objects, functions, aliases, strings, blocks, ways, loops, sites;
	uint32_t next_string, next_alias, next_block, next_loop;
};

/* What they take of some of the sections. Strings and aliases of plans begin with the empty
 * one, which the table has already. */
struct dp_ledger_size {
	uint64_t strings, aliases, blocks, ways, loops, sites;
};
void dp_measure_ledgers(const struct dp_warm *w, struct dp_ledger_size *n) HIDDEN;

/* What comes goes behind what the sections have; of a new table they are empty. */
void dp_begin_ledger(struct dp_ledger *s, const struct dp_header *h) HIDDEN;
/* Adds n bytes and a NUL, and returns where they are among the strings; none is 0. */
uint32_t dp_add_string(struct dp_ledger *s, const void *text, uint64_t n) HIDDEN;
/* Adds the blocks of the objects, with their ways and loops, or their call sites. Reports whether
 * all was written. */
int dp_put_flows(struct dp_ledger *s, const struct dp_warm *w) HIDDEN;
/* Adds the objects, which get these numbers in the table and flags. Reports whether all
 * was written. */
int dp_put_ledgers(struct dp_ledger *s, const struct dp_warm *w, uint32_t number, uint32_t flags) HIDDEN;

#endif
