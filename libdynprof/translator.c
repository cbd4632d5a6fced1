/* The translator: a callback, and how events come to it.
 *
 * Synchronous: the thread that has the event calls it (callback.c). If no stack is
 * free, or the thread is in a callback already, the event goes to the ring, and
 * whoever comes out of a callback next takes it from there: its delivery is
 * deferred. Asynchronous: the event goes to the ring, and the service thread, made
 * at registration, takes it.
 *
 *  1. Registering stores the callback last; taking it away stores 0 and waits
 *     until nobody is running it.
 *  2. Who wants to call it says so (running), and then looks whether it is there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#define DYNPROF_LIBRARY
#include "base/filters.h"
#include "base/mapped.h"
#include "base/own.h"
#include "base/state.h"
#include "dynprof.h"
#include "events/callback.h"
#include "events/describe.h"
#include "events/ring.h"
#include "stubs/redirect.h"
#include "table/entries.h"
#include "table/outcome.h"
#include "table/view.h"
#include "translator.h"

static struct translator {
	dynprof_translator *callback; /* 0: there is none */
	void *user;
	int mode;
	uint32_t running;
	uint32_t registering;
	uint32_t asleep;  /* futex: the service thread waits until it is 0 */
	uint32_t service; /* there is one */
	uint32_t doubtful; /* libraries have been closed since the callback was there */
} translator;

/* ---- calling it ------------------------------------------------------- */

/* What is left to do behind a callback, however it ended. It lies on the program's
 * stack, and is small. */
struct delivery {
	const struct dp_hot *event;
	dynprof_translator *callback;
	struct dp_copy copy;
	int here; /* its function begins behind it, on this thread */
	int gone;
};

void dp_objects_gone(void) { __atomic_store_n(&translator.doubtful, 1, __ATOMIC_SEQ_CST); }

/* Whether the callback has gone with its library. Where it is for another reason
 * a fault says so. */
static int is_gone(dynprof_translator *callback)
{
	uint8_t resident;
	uint64_t page = (uint64_t)callback & ~(uint64_t)(DP_PAGE_SIZE - 1);
	return __atomic_load_n(&translator.doubtful, __ATOMIC_SEQ_CST) &&
	       ask(SYS_mincore, page, DP_PAGE_SIZE, &resident) == -ENOMEM;
}

/* On a stack of its own. */
static void run(void *arg)
{
	struct delivery *d = arg;
	struct dynprof_event event = {0};
	d->gone = is_gone(d->callback);
	event.synchronous = translator.mode == DYNPROF_SYNCHRONOUS;
	if (d->gone || !dp_describe(d->event, d->here, &event, &d->copy))
		return;
	dp_outcome(d->event->slot, DP_OUTCOME_QUEUED, DP_OUTCOME_RUNNING);
	d->callback(&event, translator.user);
}

/* The callback is not there any more, or must not be called again. */
static void give_up(dynprof_translator *callback, const char *why)
{
	dp_translator_failed();
	if (__atomic_compare_exchange_n(&translator.callback, &callback, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		dp_say(why);
}

/* Calls it with one event. Returns -EBUSY if that must wait. */
static long deliver(const struct dp_hot *e, int here)
{
	struct delivery d = {.event = e, .here = here};
	uint64_t fault = 0;
	long err = 0;
	__atomic_fetch_add(&translator.running, 1, __ATOMIC_SEQ_CST);
	d.callback = __atomic_load_n(&translator.callback, __ATOMIC_SEQ_CST);
	if (d.callback)
		err = dp_call_back(run, &d, &fault);
	d.gone |= err == -EFAULT && fault == (uint64_t)d.callback; /* no code is there */
	if (!d.callback) {
		dp_outcome(e->slot, DP_OUTCOME_QUEUED, DP_OUTCOME_NONE);
	} else if (d.gone) {
		dp_outcome(e->slot, DP_OUTCOME_QUEUED, DP_OUTCOME_GONE);
		dp_outcome(e->slot, DP_OUTCOME_RUNNING, DP_OUTCOME_GONE);
		give_up(d.callback, "is gone (unloaded?) and not called any more");
	} else if (err == -EFAULT) {
		dp_outcome(e->slot, DP_OUTCOME_RUNNING, DP_OUTCOME_CRASHED);
		give_up(d.callback, "crashed; it is not called any more, and the program goes on");
	} else if (!err) {
		dp_outcome(e->slot, DP_OUTCOME_RUNNING, DP_OUTCOME_RETURNED);
	}
	if (d.copy.at)
		ask(SYS_munmap, d.copy.at, d.copy.size);
	__atomic_fetch_sub(&translator.running, 1, __ATOMIC_SEQ_CST);
	return err;
}

static void put(const struct dp_hot *e)
{
	if (dp_ring_put(e))
		return;
	dp_outcome(e->slot, DP_OUTCOME_QUEUED, DP_OUTCOME_DROPPED);
	__atomic_fetch_add(&dp.table->dropped, 1, __ATOMIC_RELAXED);
}

/* The event is in the ring. Who finds the service thread asleep wakes it. The fence:
 * the CPU may load before what it has stored is seen, and then neither side would
 * see the other. */
static void wake(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&translator.asleep, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&translator.asleep, 0, __ATOMIC_SEQ_CST))
		ask(SYS_futex, &translator.asleep, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

void dp_tell(const struct dp_hot *e)
{
	struct dp_hot next;
	if (!__atomic_load_n(&translator.callback, __ATOMIC_SEQ_CST))
		return;
	dp_outcome(e->slot, DP_OUTCOME_NONE, DP_OUTCOME_QUEUED);
	if (translator.mode == DYNPROF_ASYNCHRONOUS) {
		put(e);
		wake();
		return;
	}
	if (dp_in_callback() || deliver(e, 1) == -EBUSY) {
		__atomic_fetch_add(&dp.table->deferred, 1, __ATOMIC_RELAXED);
		put(e);
	}
	while (!dp_in_callback() && dp_ring_take(&next))
		if (deliver(&next, 0) == -EBUSY) { /* those who are in callbacks come by here, too */
			put(&next);
			break;
		}
}

/* ---- the service thread ------------------------------------------------ */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

/* A seccomp filter that lets no thread wait: the service thread is of no use. */
static void leave(void)
{
	__atomic_store_n(&translator.callback, 0, __ATOMIC_SEQ_CST);
	dp_translator_failed();
	dp_say("is not called any more: a seccomp filter lets no thread wait");
	for (;;)
		ask(SYS_exit, 0);
}

static void nap(long ns)
{
	struct timespec tick = {0, ns};
	if (ask(SYS_nanosleep, &tick, 0) == REFUSED)
		leave();
}

/* Whether the program's threads have all ended by pthread_exit: the process ends
 * with ours, then. The first one stays, as a zombie. */
static int is_last(void)
{
	enum { STATE = 3, THREADS = 20 }; /* fields of /proc/PID/stat, proc(5) */
	char text[512];
	long fd = dp_open_kernels(AT_FDCWD, "/proc/self/stat", O_RDONLY);
	long n = failed(fd) ? 0 : ask(SYS_read, fd, text, sizeof text), at = 0, threads = 0;
	if (!failed(fd))
		ask(SYS_close, fd);
	for (long i = 0; i < n; i++)
		if (text[i] == ')')
			at = i; /* behind the name, which may have others */
	if (!at || at + 2 >= n || text[at + 2] != 'Z')
		return 0;
	for (int field = STATE - 1; ++at < n && field <= THREADS;) {
		field += text[at] == ' ';
		if (field == THREADS && text[at] != ' ')
			threads = threads * 10 + text[at] - '0';
	}
	return threads <= 2;
}

/* Waits for an event. Waking a thread is dear for who does it, so it is only asleep
 * when there has been no event for a while: 1. it says that it is; 2. it looks
 * once more; 3. it waits, unless somebody has said that it is awake. Who puts an
 * event looks behind that: either it is seen in 2, or the sleeper in wake().
 * Returns 0 if there will be none. */
static int await_event(struct dp_hot *e)
{
	enum { TICK_NS = 100 * 1000, TICKS = 200, LOOK_NS = 250 * 1000 * 1000 };
	struct timespec look = {0, LOOK_NS};
	for (int i = 0; i < TICKS && !dp_withdrawn; i++) {
		if (dp_ring_take(e))
			return 1;
		nap(TICK_NS);
	}
	while (!dp_withdrawn && !is_last()) {
		__atomic_store_n(&translator.asleep, 1, __ATOMIC_SEQ_CST);
		if (dp_ring_take(e)) {
			__atomic_store_n(&translator.asleep, 0, __ATOMIC_SEQ_CST);
			return 1;
		}
		if (ask(SYS_futex, &translator.asleep, FUTEX_WAIT_PRIVATE, 1, &look, 0, 0) == REFUSED)
			nap(LOOK_NS);
	}
	return 0;
}

static void *serve(void *arg)
{
	static const char name[] = "dynprof-events";
	enum { TICK_NS = 1000 * 1000 };
	struct dp_hot e;
	(void)arg;
	raw(SYS_prctl, 15 /* PR_SET_NAME */, name, 0, 0, 0);
	while (await_event(&e))
		while (deliver(&e, 0) == -EBUSY) /* all stacks are in use: not for long */
			nap(TICK_NS);
	return 0;
}

/* It lets the program's threads take all signals. */
static int begin_service(void)
{
	uint64_t all = ~0ULL, mask;
	pthread_t thread;
	if (translator.service)
		return 0;
	int masked = ask(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8) == 0;
	int err = __real_pthread_create(&thread, 0, serve, 0);
	if (masked)
		ask(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
	if (err)
		return -EAGAIN;
	pthread_detach(thread);
	translator.service = 1;
	return 0;
}

/* In a child there is no service thread, and who was in a callback is not there. A
 * synchronous translator goes on. */
void dp_translator_forked(void)
{
	dp_stacks_forked();
	if (!dp.translator)
		return;
	dp_ring_begin();
	translator.running = dp_in_callback() ? 1 : 0;
	translator.service = translator.registering = translator.asleep = 0;
	if (translator.mode == DYNPROF_ASYNCHRONOUS)
		translator.callback = 0;
}

/* ---- registering ------------------------------------------------------- */

static int take_away(void)
{
	enum { MS = 2000 };
	struct timespec tick = {0, 1000 * 1000};
	__atomic_store_n(&translator.callback, 0, __ATOMIC_SEQ_CST);
	if (dp_in_callback())
		return -EDEADLK;
	for (int ms = 0; __atomic_load_n(&translator.running, __ATOMIC_SEQ_CST); ms++) {
		if (ms == MS)
			return -EBUSY;
		ask(SYS_nanosleep, &tick, 0);
	}
	return 0;
}

static int begin(dynprof_translator *callback, uint64_t threshold, int mode, void *user)
{
	long err = dp_stacks_map();
	if (!err && !dp_view())
		err = -ENOMEM;
	if (!err && (translator.callback || translator.running)) /* the last one may still run */
		err = -EBUSY;
	if (!err && mode == DYNPROF_ASYNCHRONOUS)
		err = begin_service();
	if (err)
		return (int)err;
	translator.doubtful = 0;
	translator.user = user;
	translator.mode = mode;
	__atomic_store_n(&translator.callback, callback, __ATOMIC_SEQ_CST);
	err = threshold ? dp_arm_all((uint32_t)threshold) : 0;
	if (err)
		__atomic_store_n(&translator.callback, 0, __ATOMIC_SEQ_CST);
	return (int)err;
}

int dynprof_register_translator(dynprof_translator *callback, uint64_t threshold, int mode, void *user)
{
	uint32_t nobody = 0;
	if (dp_is_off())
		return DYNPROF_OFF;
	if (!dp.translator)
		return -EOPNOTSUPP;
	if (!callback)
		return take_away();
	if (threshold > INT_MAX || (mode != DYNPROF_ASYNCHRONOUS && mode != DYNPROF_SYNCHRONOUS) || !dp_is_executable((uint64_t)callback))
		return -EINVAL;
	if (!__atomic_compare_exchange_n(&translator.registering, &nobody, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return -EBUSY;
	int err = begin(callback, threshold, mode, user);
	__atomic_store_n(&translator.registering, 0, __ATOMIC_SEQ_CST);
	return err;
}
