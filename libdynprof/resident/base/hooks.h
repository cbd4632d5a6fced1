/* What the resident part asks of who has loaded it. Who loads it fills this in
 * before the first patch is applied: so the object needs no symbol of anybody. */
#ifndef DYNPROF_HOOKS_H
#define DYNPROF_HOOKS_H

#include "base/raw.h"

struct dp_ctl;
struct dp_hot;
struct dp_refused;
struct dp_session;

struct dp_hooks {
	/* Tells the translator of an event, if there is one, now or later. */
	void (*tell)(const struct dp_hot *e);
	/* Libraries may have been closed. */
	void (*objects_gone)(void);
	/* This process is a fork's child. */
	void (*forked)(void);

	/* The control block, which has objects that come later, gets plans of earlier loads;
	 * 0 if they do not do. */
	int (*start_warm)(struct dp_ctl *ctl);
	/* Plans objects that come later: 0, or why there is nothing to apply. Prepare
	 * fills in the control block when there is one, maybe twice. */
	const char *(*plan)(struct dp_session *s, void (*prepare)(struct dp_session *s), long *twin, int *reaped);
	/* The plan, if there is one, has been applied, or is not wanted. */
	void (*finish_late)(struct dp_session *s, long twin, int reaped, int wanted);
	/* Whether that plan has to wait, as a thread is where nothing may be changed; 0: ask nobody. */
	int (*waits)(const struct dp_ctl *ctl);
	/* Refuses what may not be changed now; 0: ask nobody. */
	void (*refuse)(const struct dp_ctl *ctl, struct dp_refused *r);
	/* The control block and the reserve; reports whether there is memory for them. */
	int (*map_scratch)(struct dp_session *s);
	void (*unmap_scratch)(struct dp_session *s);
};

extern struct dp_hooks dp_hooks HIDDEN; /* state.c */

#endif
