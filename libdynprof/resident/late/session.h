/* A session with a twin: one at the start, one for objects that come later.
 * The shim gives it scratch memory, waits for its plan, and applies that. */
#ifndef DYNPROF_SESSION_H
#define DYNPROF_SESSION_H

#include <elf.h>
#include <stdint.h>

#include "base/ctl.h"
#include "base/layout.h"
#include "base/raw.h"

struct dp_session {
	struct dp_ctl *ctl;
	uint64_t scratch_size;
	uint64_t text_size; /* bytes of code that may be counted */
	uint32_t objects;   /* how many there are */
	uint32_t listed;    /* with those that are planned already */
	uint32_t vars;      /* and how many variables of the environment may be ours */
	int translator;     /* calls can be sent to other code */
	int keep;           /* the reserve stays, for later objects and the agent */
	uint64_t strings;   /* bytes of names and variables that are copied */
	int outside;        /* scratch memory is of files, for a program of its own */
	int listen;         /* the twin may become the endpoint for metrics */
	const Elf64_auxv_t *auxv;
};

/* session.c */
int dp_single_threaded(void) HIDDEN;
/* Whether address space is limited. */
int dp_space_is_short(void) HIDDEN;
int dp_map_scratch(struct dp_session *s) HIDDEN;
uint64_t dp_reserve_for(uint64_t text_size) HIDDEN;
void dp_unmap_scratch(struct dp_session *s) HIDDEN;
/* Returns 0, or why there is nothing to apply; finish it in either case. */
const char *dp_run_twin(struct dp_session *s, long *twin, int *reaped) HIDDEN;
void dp_finish_twin(long twin, int reaped, int wanted) HIDDEN;
const char *dp_await_twin(struct dp_ctl *ctl, long twin, int *reaped) HIDDEN;
int dp_children_elsewhere(void) HIDDEN;

/* pause.c */
void dp_pause_new(void) HIDDEN;

/* apply.c */
const char *dp_map_arenas(const struct dp_ctl *ctl) HIDDEN;
void dp_unmap_arenas(const struct dp_ctl *ctl) HIDDEN;
/* Maps the shared row where the arenas' stubs find it; the table is mapped. */
const char *dp_map_views(const struct dp_ctl *ctl) HIDDEN;
/* Returns how many functions could not be patched. */
uint32_t dp_apply_patches(const struct dp_ctl *ctl) HIDDEN;

/* traps.c */
int dp_traps_begin(void) HIDDEN;
void dp_traps_end(void) HIDDEN;

/* threads.c */
void dp_note_tls(uint64_t size) HIDDEN;

/* dl_iterate_phdr(3) of libc, whoever else has a function of that name. */
struct r_debug;
struct dl_phdr_info;
typedef int dp_iterate(int (*see)(struct dl_phdr_info *, size_t, void *), void *arg);
dp_iterate *dp_libc_iterate(const struct r_debug *r) HIDDEN;

/* Where the heap ends, if it can be moved up now; else 0. */
uint64_t dp_heap_end(const struct r_debug *r) HIDDEN;

/* Moves the heap's end from heap_end to heap_to: what is between is held for the
 * arenas, and the program's heap goes on behind. Reports whether it did. */
int dp_lift_heap(struct dp_ctl *ctl, const struct r_debug *r) HIDDEN;

/* late.c */
void dp_keep(const struct dp_session *s, uint64_t r_debug) HIDDEN;
void dp_objects_changed(void) HIDDEN;

static inline int same_bytes(const void *a, const void *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const uint8_t *)a)[i] != ((const uint8_t *)b)[i])
			return 0;
	return 1;
}

static inline uint64_t pages(uint64_t n)
{
	return (n + DP_PAGE_SIZE - 1) & ~(uint64_t)(DP_PAGE_SIZE - 1);
}

/* Entries of an auxiliary vector, its end included. */
static inline uint64_t auxv_count(const Elf64_auxv_t *auxv)
{
	uint64_t n = 0;
	while (auxv[n++].a_type != AT_NULL)
		;
	return n;
}

/* Bytes of the pages that a segment lies on, at most. */
static inline uint64_t dp_pages_of(const Elf64_Phdr *p) { return pages(p->p_memsz) + DP_PAGE_SIZE; }

#endif
