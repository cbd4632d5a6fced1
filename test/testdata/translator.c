/* A program with a translator of its own: the argument says what to try. */
#define _GNU_SOURCE
#include <dynprof.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "expect.h"
#include "instead.h"
#include "pin.h"

static volatile int zero;
static int *volatile nowhere = (int *)8;

OWN long plain(long x) { __asm__ volatile("" ::: "memory"); return 3 * x + 1; }
OWN long other(long x) { __asm__ volatile("" ::: "memory"); return x + 1000000; }
OWN double vector(double a, double b, double c) { __asm__ volatile("" ::: "memory"); return a * b - c; }

enum { HOT = 12 };
#define F(n) OWN long hot_##n(long x) { __asm__ volatile("" ::: "memory"); return x * 7 + n; }
F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#undef F
#define F(n) hot_##n,
static long (*const hot[HOT])(long) = {F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)};
#undef F

/* What the translator saw. */
static atomic_int events, events_of_plain;
static struct dynprof_event last;
static char last_name[64];
static atomic_long at_calls;
static pthread_t by;

static void look(const struct dynprof_event *e)
{
	if (e->size < sizeof *e)
		wrong = 1;
	if (!strcmp(e->name, "plain")) {
		last = *e;
		snprintf(last_name, sizeof last_name, "%s", e->name);
		at_calls = (long)e->calls;
		by = pthread_self();
		events_of_plain++;
	}
	events++;
}

static void watches(const struct dynprof_event *e, void *user)
{
	look(e);
	if (user)
		++*(atomic_int *)user;
}

static void redirects(const struct dynprof_event *e, void *user)
{
	look(e);
	if (!strcmp(e->name, "plain"))
		expect("redirect", dynprof_redirect(e->function, (void *)other, (int)(long)user), 0);
}

static int await(atomic_int *what, int n)
{
	for (int i = 0; i < 20000 && *what < n; i++)
		usleep(1000);
	return *what;
}

static int64_t number(const char *name) { return dynprof_find(0, name); }

/* At the n-th call, before it has begun, with all of its bytes and numbers. */
static void synchronous(int n)
{
	expect("register", dynprof_register_translator(redirects, (uint64_t)n, DYNPROF_SYNCHRONOUS, (void *)1L), 0);
	for (int i = 1; i < n; i++)
		expect("before", plain(i), 3 * i + 1);
	expect("none yet", events_of_plain, 0);
	expect("the n-th", plain(1), 1000001);
	expect("one", events_of_plain, 1);
	expect("calls", at_calls, n);
	expect("name", strcmp(last_name, "plain"), 0);
	expect("entry", (long)last.entry, (long)plain);
	expect("synchronous", last.synchronous, 1);
	expect("thread", pthread_equal(by, pthread_self()), 1);
	expect("pid", last.pid, getpid());
	expect("tid", last.tid, gettid());
	for (int i = 1; i < 3 * n; i++)
		expect("behind", plain(i), 1000000 + i);
	expect("one", events_of_plain, 1);
	expect("rearm", dynprof_rearm(number("plain"), 5), 0);
	for (int i = 1; i < 5; i++)
		plain(i);
	expect("one", events_of_plain, 1);
	plain(1);
	expect("two", events_of_plain, 2);
	expect("away", dynprof_register_translator(0, 0, 0, 0), 0);
	expect("rearm", dynprof_rearm(number("plain"), 1), 0);
	plain(1);
	expect("nobody", events_of_plain, 2);
}

static void uses_vectors(const struct dynprof_event *e, void *user)
{
	volatile double x = 1.5;
	char text[200];
	look(e);
	for (int i = 0; i < 50; i++)
		x = x * 1.01 + i;
	snprintf(text, sizeof text, "%g %s", x, (char *)user);
	__asm__ volatile("pcmpeqd %%xmm0,%%xmm0; pcmpeqd %%xmm1,%%xmm1; pcmpeqd %%xmm7,%%xmm7" ::: "xmm0", "xmm1", "xmm7");
}

static void keeps_vectors(void)
{
	expect("register", dynprof_register_translator(uses_vectors, 3, DYNPROF_SYNCHRONOUS, "text"), 0);
	for (int i = 0; i < 6; i++)
		expect("vector", (long)vector(i, 10, 3), 10 * i - 3);
	expect("events", events >= 1, 1);
}

static void asynchronous(int n)
{
	expect("register", dynprof_register_translator(redirects, (uint64_t)n, DYNPROF_ASYNCHRONOUS, (void *)1L), 0);
	for (int i = 1; i <= n; i++)
		expect("call", plain(i) == 3 * i + 1, 1);
	expect("event", await(&events_of_plain, 1), 1);
	expect("thread", pthread_equal(by, pthread_self()), 0);
	expect("tid", last.tid, gettid());
	for (int i = 0; i < 5000 && plain(1) != 1000001; i++)
		usleep(1000);
	expect("redirected", plain(1), 1000001);
	expect("rearm", dynprof_rearm(number("plain"), 1), 0);
	plain(1);
	expect("event", await(&events_of_plain, 2), 2);
}

/* ---- threads ---------------------------------------------------------- */

enum { THREADS = 8, LAP = 20000 };
static atomic_int ready;
static double seconds;
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *all_hot(void *arg)
{
	double end = now() + seconds;
	pin((int)(long)arg);
	ready++;
	while (ready < THREADS)
		sched_yield();
	while (now() < end)
		for (int i = 0; i < 1000; i++)
			for (int k = 0; k < HOT; k++)
				hot[k](i);
	return 0;
}

/* One event for each function and arming: a function is armed again in its event,
 * and both are counted. */
static atomic_int fired[HOT], armed[HOT];
static void arms_again(const struct dynprof_event *e, void *user)
{
	(void)user;
	for (int k = 0; k < HOT; k++)
		if (e->entry == (void *)hot[k]) {
			fired[k]++;
			armed[k]++;
			if (dynprof_rearm(e->function, LAP) != 0)
				abort();
			return;
		}
}

/* The service thread gets no CPU on a busy machine for a while. */
static int all_told(void)
{
	for (int k = 0; k < HOT; k++)
		if (fired[k] < 2 || armed[k] != fired[k] + 1)
			return 0;
	return 1;
}

static void exactly_once(int mode, double s)
{
	pthread_t t[THREADS];
	seconds = s;
	for (int k = 0; k < HOT; k++)
		armed[k] = 1;
	expect("register", dynprof_register_translator(arms_again, LAP, mode, 0), 0);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], 0, all_hot, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], 0);
	for (int i = 0; i < 60000 && mode == DYNPROF_ASYNCHRONOUS && !all_told(); i++)
		usleep(1000);
	long all = 0;
	for (int k = 0; k < HOT; k++) {
		long calls = dynprof_calls_of(dynprof_find_address((void *)hot[k]));
		all += fired[k];
		if (fired[k] < 2 || armed[k] != fired[k] + 1 || fired[k] > calls / LAP) {
			printf("function %d: %ld calls, %d events of %d armings\n", k, calls, fired[k], armed[k]);
			wrong = 1;
		}
	}
	fprintf(stderr, "%ld events\n", all);
}

/* Each thread once, at the same moment. */
static void *once_each(void *arg)
{
	(void)arg;
	ready++;
	while (ready < THREADS)
		sched_yield();
	for (int i = 0; i < 200; i++)
		plain(i);
	return 0;
}

static void takes_long(const struct dynprof_event *e, void *user)
{
	look(e);
	(void)user;
	usleep(100000);
}

/* More events than the ring holds, while the translator sleeps. */
static atomic_int asleep, may_go, told;
static void sleeps(const struct dynprof_event *e, void *user)
{
	(void)e, (void)user;
	asleep = 1;
	while (!may_go)
		usleep(1000);
	told++;
}
static void overflow(int n)
{
	int64_t f = number("plain");
	expect("register", dynprof_register_translator(sleeps, 0, DYNPROF_ASYNCHRONOUS, 0), 0);
	for (int i = 0; i < n; i++) {
		expect("rearm", dynprof_rearm(f, 1), 0);
		plain(i);
		if (i == 0)
			await(&asleep, 1); /* this one is out of the ring by then */
	}
	may_go = 1;
	expect("told", await(&told, 1025), 1025);
	usleep(20000);
	expect("told", told, 1025);
}

/* ---- odd places ------------------------------------------------------- */

static void on_signal(int sig)
{
	(void)sig;
	plain(1);
}

static ucontext_t main_context, small_context;
static void in_coroutine(void) { plain(1); }

static void places(void)
{
	static char small[8 << 10];
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	stack_t alt = {.ss_sp = malloc(SIGSTKSZ), .ss_size = (size_t)SIGSTKSZ};
	sigaltstack(&alt, 0);
	sigaction(SIGUSR1, &act, 0);
	expect("register", dynprof_register_translator(redirects, 2, DYNPROF_SYNCHRONOUS, (void *)1L), 0);
	plain(1);
	raise(SIGUSR1);
	expect("in a handler", events_of_plain, 1);
	expect("rearm", dynprof_rearm(number("plain"), 1), 0);
	getcontext(&small_context);
	small_context.uc_stack.ss_sp = small;
	small_context.uc_stack.ss_size = sizeof small;
	small_context.uc_link = &main_context;
	makecontext(&small_context, in_coroutine, 0);
	swapcontext(&main_context, &small_context);
	expect("on a small stack", events_of_plain, 2);
}

/* Signals wait until the callback has returned. */
static atomic_int struck, struck_inside;
static void strikes(int sig)
{
	(void)sig;
	struck = 1;
}
static void is_struck(const struct dynprof_event *e, void *user)
{
	look(e);
	(void)user;
	kill(getpid(), SIGUSR2);
	struck_inside = struck;
}
static void signals(void)
{
	signal(SIGUSR2, strikes);
	expect("register", dynprof_register_translator(is_struck, 2, DYNPROF_SYNCHRONOUS, 0), 0);
	plain(1);
	plain(1);
	expect("inside", struck_inside, 0);
	expect("behind", struck, 1);
}

/* ---- children --------------------------------------------------------- */

static void forks(int mode)
{
	int status = 1;
	expect("register", dynprof_register_translator(redirects, 10, mode, (void *)1L), 0);
	for (int i = 0; i < 5; i++)
		plain(i);
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < 20; i++)
			plain(i);
		if (mode == DYNPROF_SYNCHRONOUS) {
			expect("child's event", events_of_plain, 1);
			expect("pid", last.pid, getpid());
			expect("redirected", plain(1), 1000001);
		} else {
			usleep(50000);
			expect("child's event", events_of_plain, 0);
			expect("own code", plain(1), 4);
			expect("registers again", dynprof_register_translator(redirects, 0, mode, (void *)1L), 0);
			expect("rearm", dynprof_rearm(number("plain"), 1), 0);
			plain(1);
			expect("child's event", await(&events_of_plain, 1), 1);
		}
		fflush(stdout);
		_exit(wrong);
	}
	waitpid(child, &status, 0);
	expect("status", status, 0);
	for (int i = 0; i < 20; i++)
		plain(i);
	expect("it was the child's", events_of_plain, 0);
	expect("own code", plain(1), 4);
	expect("rearm", dynprof_rearm(number("plain"), 1), 0);
	plain(1);
	expect("parent's own", await(&events_of_plain, 1), 1);
}

/* ---- translators that misbehave ---------------------------------------- */

static void crashes(const struct dynprof_event *e, void *user)
{
	look(e);
	if (!strcmp(e->name, "plain") && !strcmp(user, "null"))
		*nowhere = 1;
	if (!strcmp(e->name, "plain") && !strcmp(user, "jump"))
		((void (*)(void))user)();
	if (!strcmp(e->name, "plain") && !strcmp(user, "trap"))
		__builtin_trap();
	if (!strcmp(e->name, "plain") && !strcmp(user, "divide"))
		wrong |= (int)(clock() + 7) / zero;
}

static void calls_itself(const struct dynprof_event *e, void *user)
{
	look(e);
	(void)user;
	expect("inside", plain(5), 16);
	expect("rearm", dynprof_rearm(e->function, 1), 0);
	if (events == 1)
		expect("inside", plain(6), 19);
	else
		dynprof_rearm(e->function, 1000);
}

static void makes_child(const struct dynprof_event *e, void *user)
{
	int status = 1;
	look(e);
	(void)user;
	pid_t child = fork();
	if (child == 0)
		_exit(plain(2) == 7 ? 3 : 4);
	waitpid(child, &status, 0);
	expect("child", WEXITSTATUS(status), 3);
}

static void takes_itself_away(const struct dynprof_event *e, void *user)
{
	look(e);
	(void)user;
	expect("away", dynprof_register_translator(0, 0, 0, 0), -EDEADLK);
}

static void garbage(const struct dynprof_event *e, void *user)
{
	static long data;
	look(e);
	(void)user;
	expect("null", dynprof_redirect(e->function, 0, 1), -EINVAL);
	expect("data", dynprof_redirect(e->function, &data, 1), -EINVAL);
	expect("unmapped", dynprof_redirect(e->function, (void *)0x123456, 1), -EINVAL);
	expect("itself", dynprof_redirect(e->function, e->entry, 1), -EINVAL);
}

static dynprof_translator *code_that_goes(void)
{
	uint8_t *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*at = 0xc3;
	return (dynprof_translator *)at;
}

static void misbehaves(const char *how, int mode)
{
	dynprof_translator *t = watches;
	void *user = 0;
	int least = 1;
	if (!strncmp(how, "crash-", 6)) {
		t = crashes;
		user = (void *)(how + 6);
	} else if (!strcmp(how, "itself")) {
		t = calls_itself;
		least = 2;
	} else if (!strcmp(how, "forks")) {
		t = makes_child;
	} else if (!strcmp(how, "away")) {
		t = takes_itself_away;
	} else if (!strcmp(how, "garbage")) {
		t = garbage;
	} else if (!strcmp(how, "gone")) {
		t = code_that_goes();
		least = 0;
	} else if (!strcmp(how, "blocks")) {
		t = takes_long;
	}
	expect("register", dynprof_register_translator(t, 10, mode, user), 0);
	expect("twice", dynprof_register_translator(watches, 10, mode, 0), -EBUSY);
	if (!strcmp(how, "gone"))
		munmap((void *)t, 4096);
	for (int i = 0; i < 20; i++)
		expect("call", plain(i), 3 * i + 1);
	await(&events, least);
	usleep(20000);
	expect("event", events >= least, 1);
	for (int i = 0; i < 20; i++)
		expect("call", plain(i), 3 * i + 1);
	if (!strncmp(how, "crash-", 6) || !strcmp(how, "gone")) /* there is none any more */
		expect("another", instead(watches, 10, mode), 0);
}

static void wrong_arguments(void)
{
	static long data;
	expect("mode", dynprof_register_translator(watches, 1, 7, 0), -EINVAL);
	expect("threshold", dynprof_register_translator(watches, 1UL << 31, 0, 0), -EINVAL);
	expect("code", dynprof_register_translator((dynprof_translator *)&data, 1, 0, 0), -EINVAL);
	expect("largest", dynprof_register_translator(watches, (1UL << 31) - 1, DYNPROF_SYNCHRONOUS, 0), 0);
	expect("away", dynprof_register_translator(0, 0, 0, 0), 0);
	expect("again", dynprof_register_translator(watches, 0, DYNPROF_SYNCHRONOUS, 0), 0);
}

/* A fault of the program's own is as it was. */
static void dies(void)
{
	struct sigaction old;
	expect("register", dynprof_register_translator(watches, 1000, DYNPROF_SYNCHRONOUS, 0), 0);
	sigaction(SIGSEGV, 0, &old);
	expect("handler", old.sa_handler == SIG_DFL, 1);
	puts(wrong ? "wrong" : "ok");
	fflush(stdout);
	*nowhere = 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int mode = argc > 2 && !strcmp(argv[2], "sync");
	double n = argc > 3 ? atof(argv[3]) : 10;
	if (!strcmp(what, "synchronous"))
		synchronous((int)n);
	else if (!strcmp(what, "asynchronous"))
		asynchronous((int)n);
	else if (!strcmp(what, "vectors"))
		keeps_vectors();
	else if (!strcmp(what, "once"))
		exactly_once(mode, n);
	else if (!strcmp(what, "places"))
		places();
	else if (!strcmp(what, "signals"))
		signals();
	else if (!strcmp(what, "forks"))
		forks(mode);
	else if (!strcmp(what, "arguments"))
		wrong_arguments();
	else if (!strcmp(what, "overflow"))
		overflow((int)n);
	else if (!strcmp(what, "dies"))
		dies();
	else if (!strcmp(what, "busy")) {
		pthread_t t[THREADS];
		expect("register", dynprof_register_translator(takes_long, 50, mode, 0), 0);
		for (long i = 0; i < THREADS; i++)
			pthread_create(&t[i], 0, once_each, 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(t[i], 0);
		expect("one", await(&events_of_plain, 1), 1);
	} else if (*what) {
		misbehaves(what, mode);
	}
	puts(wrong ? "wrong" : "ok");
	return wrong;
}
