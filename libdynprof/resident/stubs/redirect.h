/* Redirectable stubs: what stubgen/emit/redirect.go writes, and what changes in it. */
#ifndef DYNPROF_REDIRECT_H
#define DYNPROF_REDIRECT_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"
#include "base/stub.h"
#include "stubs/keeper.h"

/* One of the two forms of a stub, by offsets from its start; negative ones are
 * of its front. */
struct dp_form {
	uint16_t counts;  /* the first two bytes of a count */
	uint8_t add;      /* the count's incq */
	uint8_t front;    /* size of the front, which begins with its count */
	int8_t arrive;    /* jmp *arrive */
	int8_t lap;       /* lock decq lap */
	int8_t back;      /* where the cold path comes back to */
	uint8_t check;    /* the threshold check, */
	uint8_t limit;    /* its immediate, */
	uint8_t limit_at; /* and the aligned quad that it lies in */
	uint8_t body;     /* the displaced instructions, if there is a check */
};

/* A redirectable stub of this process. */
struct dp_stub {
	uint64_t at;
	uint64_t entry, bytes; /* of its function; not from a cold block */
	const struct dp_form *form;
	struct dp_pointers *pointers;
	uint32_t *fired;
};

/* The form of the stub of a counter, whose count has that many bytes; 0 if it is
 * none, as in another process's arena at the same address. */
const struct dp_form *dp_form_of(const uint8_t *stub, uint32_t counter, uint32_t count) HIDDEN;

/* A jmp of 2 bytes to what is distance bytes behind its own first. */
static inline uint16_t dp_short_jump(int distance) { return (uint16_t)(DP_OP_JMP_SHORT | (uint8_t)(distance - DP_JMP_SHORT_SIZE) << 8); }

/* Where a jmp of 5 bytes leads. */
static inline uint64_t dp_jump_target(uint64_t at) { return at + DP_JMP_SIZE + (uint64_t)(int64_t) * (const int32_t *)(at + 1); }

/* Where a kernel site's thunk leads to, of which the setup has so many bytes. */
static inline uint64_t dp_thunk_leads_to(uint64_t thunk, uint64_t setup)
{
	uint64_t jump = thunk + setup + DP_THUNK_LEA, behind = jump + DP_THUNK_JUMP;
	return *(const uint64_t *)(behind + (uint64_t)(int64_t) * (const int32_t *)(behind - 4));
}

/* The stub whose cold block holds at. */
int dp_stub_of_cold(uint64_t at, uint32_t counter, struct dp_stub *s) HIDDEN;
/* Takes the event of a lap that is over, for one caller only. */
int dp_claim_lap(struct dp_stub *s) HIDDEN;
/* Functions from number first on that have no threshold: they do not fire. */
void dp_arm_new(uint32_t first) HIDDEN;
long dp_arm_all(uint32_t threshold) HIDDEN;
/* As dynprof_original, of the function at f in the view; 0 if there is none. */
uint64_t dp_body_of(const struct dp_header *view, const struct dp_function *f) HIDDEN;
/* This process is a fork's child. */
void dp_redirect_forked(void) HIDDEN;

#endif
