/* Who stays beside a program that was attached to, and plans for it what comes later. */
#ifndef DYNPROF_COMPANION_H
#define DYNPROF_COMPANION_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/raw.h"

struct dp_session;

/* What is said to him: where in this process he finds what. The same struct is in Go in
 * internal/handover, which libdynprof/same.go compares. */
struct dp_asks {
	uint64_t ctl, ctl_size; /* struct dp_ctl, and the lists behind it */
	uint64_t writable;      /* the reserve, where it can be written to */
	uint64_t tid;           /* who waits */
	uint8_t nonce[16];      /* of the table; also in the block, as long as it is one */
};

/* What he answers. Who is closed in front of the last answer has nothing planned. */
#define DP_ANSWER_BEGUN 1   /* the table may be changed */
#define DP_ANSWER_PLANNED 2

/* Where he listens. */
struct dp_companion {
	struct sockaddr_un at;
	uint64_t size; /* of at; 0: there is nobody */
};

/* The abstract socket that he listens at; none, if size is 0. Returns who it was. */
struct dp_companion dp_companion_is(const uint8_t *name, uint64_t size) HIDDEN;
void dp_companion_was(const struct dp_companion *c) HIDDEN;

/* For dp_hooks (base/hooks.h). */
const char *dp_companion_plans(struct dp_session *s, void (*prepare)(struct dp_session *s), long *twin, int *reaped) HIDDEN;
void dp_companion_is_through(struct dp_session *s) HIDDEN;
void dp_companion_forked(void) HIDDEN;

#endif
