/* Counting begins: the table that a planner has made is mapped, and the thread that asks
 * for it counts in its first row. */
#ifndef DYNPROF_BEGIN_H
#define DYNPROF_BEGIN_H

#include <elf.h>
#include <stdint.h>

#include "base/raw.h"

struct dp_begin {
	const char *table;    /* its path; 0: it is open */
	const uint8_t *nonce; /* 16 bytes that its header has to have */
	const Elf64_auxv_t *auxv;
	long fd; /* of the table, if it is open: it is closed then */
};

/* As a struct dp_room has it; arg: struct dp_begin *. */
const char *dp_begin(void *arg) HIDDEN;
void dp_take_begin_back(void *unused) HIDDEN;

/* An entry of the auxiliary vector; 0: there is none. */
/* Whether rdfsbase and its like can be used. */
int dp_has_bases(const Elf64_auxv_t *auxv) HIDDEN;
uint64_t dp_aux(const Elf64_auxv_t *auxv, uint64_t type) HIDDEN;

#endif
