/* What somebody from outside, who has stopped all threads of a process, leaves in its memory
 * for the code that one of them runs then: to begin counting, to end it, or to pause. Addresses are of
 * this process. The same structs are in Go in internal/handover, which
 * libdynprof/same.go compares. */
#ifndef DYNPROF_ATTACH_H
#define DYNPROF_ATTACH_H

/* The word that decides, whoever dies meanwhile. */
#define DP_NOT_BEGUN 0
#define DP_BUSY 1      /* text may be changed: nobody of the program runs */
#define DP_DONE 2      /* all go on where "to" says */
#define DP_GIVEN_UP 3  /* nothing was changed, nor will be: all go on where "from" says */

#define DP_KEEP_GS 1   /* no GS base: it stays what it is */

/* Offsets in struct dp_parked (park.S). */
#define DP_PARKED_FROM 0
#define DP_PARKED_TO 144
#define DP_PARKED_MASK 288
#define DP_PARKED_GS 296
#define DP_PARKED_REQUEST 304
#define DP_PARKED_LEFT 320

/* In struct dp_place. */
#define DP_PLACE_RIP 0
#define DP_PLACE_RSP 8
#define DP_PLACE_RAX 16
#define DP_PLACE_EFLAGS 24
#define DP_PLACE_RBX 32
#define DP_PLACE_RCX 40
#define DP_PLACE_RDX 48
#define DP_PLACE_RSI 56
#define DP_PLACE_RDI 64
#define DP_PLACE_RBP 72
#define DP_PLACE_R8 80
#define DP_PLACE_R9 88
#define DP_PLACE_R10 96
#define DP_PLACE_R11 104
#define DP_PLACE_R12 112
#define DP_PLACE_R13 120
#define DP_PLACE_R14 128
#define DP_PLACE_R15 136

/* In struct dp_attach. */
#define DP_ATTACH_WORD 0
#define DP_ATTACH_STACK 8

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

#include "base/ctl.h"
#include "base/raw.h"

/* Where a thread stands, with all its registers. */
struct dp_place {
	uint64_t rip, rsp, rax, eflags;
	uint64_t rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15;
};
_Static_assert(offsetof(struct dp_place, eflags) == DP_PLACE_EFLAGS && offsetof(struct dp_place, r15) == DP_PLACE_R15, "dp_place");

/* A stopped thread: all that it needs to go on by itself. From is where it was stopped, to where
 * it goes on. */
struct dp_parked {
	struct dp_place from, to;
	uint64_t mask;    /* of blocked signals */
	uint64_t gs;      /* the base that it goes on with, or DP_KEEP_GS */
	uint64_t request; /* struct dp_attach * */
	uint64_t tid;     /* as the process sees it */
	uint64_t left;    /* 1: it goes on by itself, or has */
};
_Static_assert(offsetof(struct dp_parked, from) == DP_PARKED_FROM, "dp_parked");
_Static_assert(offsetof(struct dp_parked, to) == DP_PARKED_TO, "dp_parked");
_Static_assert(offsetof(struct dp_parked, mask) == DP_PARKED_MASK, "dp_parked");
_Static_assert(offsetof(struct dp_parked, gs) == DP_PARKED_GS, "dp_parked");
_Static_assert(offsetof(struct dp_parked, request) == DP_PARKED_REQUEST, "dp_parked");
_Static_assert(offsetof(struct dp_parked, left) == DP_PARKED_LEFT, "dp_parked");

/* How far it is: who comes later may find that somebody was killed in the middle. */
enum dp_attach_state { DP_NOTHING_YET, DP_BEGINS, DP_COUNTS, DP_ENDS, DP_HAS_ENDED };

enum dp_wish { DP_ATTACH, DP_DETACH, DP_PAUSE, DP_RESUME, DP_ADD };

enum dp_outcome_of {
	DP_ATTACH_FAILED,  /* why says it; all is as it was */
	DP_ATTACH_AGAIN,   /* a thread is where nothing may be changed: all is as it was */
	DP_ATTACH_DONE,
};

struct dp_attach {
	uint64_t word;  /* DP_BUSY, … in its lower half: a futex word */
	uint64_t stack; /* the end of a stack for who does it */
	uint64_t wish;  /* enum dp_wish */
	uint64_t outcome;
	uint64_t socket; /* said by the process: where the table is to be sent to, a descriptor and 1 */

	uint64_t threads, threads_count; /* struct dp_parked: all but who has ended */
	uint64_t frames, frames_count;   /* uint64_t *: addresses of ucontexts on their stacks, from before */
	uint64_t struck, struck_count;   /* uint64_t *: where faults have called handlers that run, or will */
	uint64_t leaves_struck;          /* what is to be changed there stays as it is; else it is tried again */
	uint64_t first;                  /* the first thread's number; 0: it has ended */

	/* To begin: as in struct dp_ctl. */
	uint64_t reserve, reserve_size, arenas, arenas_count, texts, texts_count, undos, undos_count;
	uint64_t table;   /* char *; 0: it is sent, as a descriptor */
	uint64_t nonce[2];
	uint64_t auxv;    /* Elf64_auxv_t * */
	uint64_t r_debug; /* struct r_debug * */
	uint64_t low, high; /* where this code and its data lie */
	uint64_t small_stacks; /* whether the program's may be too small for C (base/sidestack.h) */
	uint64_t mark; /* of what is kept in frames of signals (signals/kept.h): random, not 0 */
	uint64_t companion, companion_size; /* uint8_t *: an abstract socket's name (companion.h) */
	uint64_t leaves; /* DP_ADD: he is there for that only */

	/* To end: what is ours besides that, if it may be unmapped. */
	uint64_t owned, owned_room, owned_count; /* struct dp_range * */
	uint64_t inside; /* how many threads are in code of ours yet */

	int64_t result; /* of pausing and resuming: what dynprof_pause returns; of DP_ADD: how many objects are new */
	char why[256];
};
_Static_assert(offsetof(struct dp_attach, word) == DP_ATTACH_WORD, "dp_attach");
_Static_assert(offsetof(struct dp_attach, stack) == DP_ATTACH_STACK, "dp_attach");

/* By dp_write, on a stack of its own. */
void dp_attach_here(struct dp_attach *a) HIDDEN;

#endif

#endif
