/* The translator: who is told of hot events, and how. */
#ifndef DYNPROF_TRANSLATOR_H
#define DYNPROF_TRANSLATOR_H

#include <stdint.h>

#include "raw.h"

/* No slot of the table's events. */
#define DP_NO_SLOT (~0ULL)

/* An event for the translator. */
struct dp_hot {
	uint32_t counter, pid, tid, reserved;
	uint64_t slot; /* of its record */
	uint64_t calls;
};

/* translator.c: tells the translator, if there is one, now or later. */
void dp_tell(const struct dp_hot *e) HIDDEN;
/* Notes what became of an event; only if it is still what it was. */
void dp_outcome(uint64_t slot, uint32_t was, uint32_t is) HIDDEN;
/* Of the last event of a counter, if there is one. */
void dp_outcome_of(uint32_t counter, uint32_t is) HIDDEN;
/* A redirect of a counter's function has been refused. */
void dp_refused(uint32_t counter) HIDDEN;
void dp_translator_failed(void) HIDDEN;
/* Libraries may have been closed. */
void dp_objects_gone(void) HIDDEN;
void dp_translator_forked(void) HIDDEN;
void dp_say(const char *what) HIDDEN;

/* describe.c: fills in what a callback is given, on its stack; synchronous is
 * set. here: this thread is at the function's beginning. Returns 0 if the function is not known. The copy, if it is not 0, is to be
 * unmapped behind the callback. */
struct dp_copy { void *at; uint64_t size; };
struct dynprof_event;
int dp_describe(const struct dp_hot *e, int here, struct dynprof_event *v, struct dp_copy *copy) HIDDEN;

/* ring.c: events on their way. Any thread at any time may put and take. */
int dp_ring_put(const struct dp_hot *e) HIDDEN;
int dp_ring_take(struct dp_hot *e) HIDDEN;
void dp_ring_begin(void) HIDDEN;

/* callback.c: calls fn(arg) on a stack of its own, with signals blocked. Returns 0;
 * -EBUSY if no stack is free or this thread is in a callback; -EFAULT if fn ended
 * with a fault, and where. */
long dp_call_back(void (*fn)(void *), void *arg, uint64_t *fault) HIDDEN;
/* Memory that is the callback's until it ends; 0 in none. */
void *dp_callback_room(uint64_t *size) HIDDEN;
long dp_stacks_map(void) HIDDEN;
/* Whether this thread is in a callback. */
int dp_in_callback(void) HIDDEN;
void dp_stacks_forked(void) HIDDEN;
/* Whether a handler is ours, which the program shall not see. */
int dp_is_fault_handler(uint64_t handler) HIDDEN;

/* original.c: bytes as they were before patching. */
struct dp_ctl;
void dp_keep_patches(const struct dp_ctl *ctl) HIDDEN;
void dp_undo_in(uint8_t *copy, uint64_t at, uint64_t size) HIDDEN;

/* mapped.c */
int dp_is_executable(uint64_t at) HIDDEN;

/* redirect.c */
/* As dynprof_original, of the function at f in the view; 0 if there is none. */
uint64_t dp_body_of(const uint8_t *view, const uint8_t *f) HIDDEN;
long dp_arm_all(uint32_t threshold) HIDDEN;

/* plugin.c: loads the plug-in when the program is about to begin. */
void dp_plan_plugin(const char *path, uint64_t entry) HIDDEN;
/* late.c: objects that come now are not counted. */
extern int dp_own_objects HIDDEN;

#endif
