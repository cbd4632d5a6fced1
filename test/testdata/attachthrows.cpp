/* Handlers that unwind the stack from what they have interrupted. Commands on stdin, each answered
 * by a line; with an argument they run on another stack,
 * where the kernel puts each context at the start of a page:
 *
 *	faults N  a function faults so often, at its first instruction, in the middle of those that a
 *		patch overwrites and behind them; the handler looks at the stack, as it was found before the
 *		first command, and throws; how many were caught, and how many stacks were others
 *	repairs N as often the handler repairs what faults, and returns; how many were right
 *	exits N   so many threads end in the handler; how many of their objects were destroyed
 *	alarms N  a timer interrupts calls so often; how many stacks did not end at the first frame
 *	storm     faults and alarms until there is more on stdin; whether all were caught
 *	end
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>

enum { PAGE = 4096, STRIKES = 3, FRAMES = 30 };
enum todo { THROW, REPAIR, EXIT };

static thread_local todo does;
static thread_local int strikes;
static char *page; /* what is on it can be read, and nothing behind */
static int known[STRIKES], others, destroyed;
static void *stacks[STRIKES][FRAMES], *outermost;
static volatile sig_atomic_t alarms, cut;

extern "C" __attribute__((noinline)) int strikes_at(volatile int *p) { return p[0] * 7 + p[1] * 3 + p[2]; }
extern "C" __attribute__((noinline)) int works(int n) { return n * 3 + 1; }

/* Not in the handler: who throws stands between two frames. */
static void unblock()
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &set, 0);
}

static void on_fault(int)
{
	void *stack[FRAMES];
	int n = does == THROW ? backtrace(stack, FRAMES) : 0;
	switch (does) {
	case REPAIR:
		mprotect(page + PAGE, PAGE, PROT_READ | PROT_WRITE);
		return;
	case EXIT:
		pthread_exit(0);
	case THROW:
		if (!known[strikes]) {
			known[strikes] = n;
			memcpy(stacks[strikes], stack, sizeof stack);
			outermost = stack[n - 1];
		} else if (n != known[strikes] || memcmp(stack + 1, stacks[strikes] + 1, (n - 1) * sizeof *stack))
			others++;
	}
	throw 1;
}

static void on_alarm(int)
{
	void *stack[FRAMES];
	int n = backtrace(stack, FRAMES);
	if (stack[n - 1] != outermost)
		cut++;
	alarms++;
}

static volatile int *at(int i)
{
	strikes = i;
	return (volatile int *)(page + PAGE - i * sizeof(int));
}

__attribute__((noinline)) static int faults(int n)
{
	int caught = 0;
	for (int i = 0; i < n; i++) {
		try {
			strikes_at(at(i % STRIKES));
		} catch (int) {
			unblock();
			caught++;
		}
	}
	return caught;
}

static int repairs(int n)
{
	int right = 0;
	does = REPAIR;
	for (int i = 0; i < n; i++) {
		volatile int *p = at(i % STRIKES);
		right += strikes_at(p) == p[0] * 7 + p[1] * 3 + p[2];
		mprotect(page + PAGE, PAGE, PROT_NONE);
	}
	return right;
}

struct object {
	~object() { destroyed++; }
};

static void *ends(void *)
{
	object o;
	does = EXIT;
	strikes_at(at(0));
	return 0;
}

static void *context;

static void where(int, siginfo_t *, void *is) { context = is; }

static void has_another_stack()
{
	char *room = (char *)mmap(0, 18 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t other = {room, 0, 16 * PAGE};
	struct sigaction act = {};
	act.sa_flags = SA_ONSTACK | SA_SIGINFO;
	act.sa_sigaction = where;
	sigaction(SIGUSR1, &act, 0);
	sigaltstack(&other, 0);
	raise(SIGUSR1);
	other.ss_sp = room + PAGE - (unsigned long)context % PAGE;
	sigaltstack(&other, 0);
	raise(SIGUSR1);
	if ((unsigned long)context % PAGE)
		puts("no context is at the start of a page");
}

static void runs(long micros)
{
	itimerval each = {{0, micros}, {0, micros}};
	setitimer(ITIMER_REAL, &each, 0);
}

/* The frames below main are the same each time. */
__attribute__((noinline)) static void obeys(const char *line)
{
	int n = 0, caught = 0, sum = 0;
	sscanf(line, "%*s %d", &n);
	does = THROW;
	others = 0;
	if (!strncmp(line, "faults", 6)) {
		int first = !known[0];
		caught = faults(n);
		if (first)
			puts("ready");
		else
			printf("%d caught, %d other stacks\n", caught, others);
	} else if (!strncmp(line, "repairs", 7)) {
		printf("%d right\n", repairs(n));
	} else if (!strncmp(line, "exits", 5)) {
		destroyed = 0;
		for (int i = 0; i < n; i++) {
			pthread_t t;
			pthread_create(&t, 0, ends, 0);
			pthread_join(t, 0);
		}
		printf("%d destroyed\n", destroyed);
	} else if (!strncmp(line, "alarms", 6)) {
		alarms = cut = 0;
		runs(300);
		while (alarms < n)
			sum += works(sum);
		runs(0);
		printf("%d cut\n", (int)cut);
	} else {
		pollfd in = {0, POLLIN, 0};
		runs(500);
		while (poll(&in, 1, 0) <= 0) {
			n += 10 * STRIKES;
			caught += faults(10 * STRIKES);
		}
		runs(0);
		puts(n == caught ? "all caught" : "not all caught");
	}
}

int main(int argc, char **)
{
	struct sigaction act = {};
	char line[64];
	setvbuf(stdout, 0, _IOLBF, 0);
	page = (char *)mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(page + PAGE, PAGE, PROT_NONE);
	if (argc > 1)
		has_another_stack();
	sigaddset(&act.sa_mask, SIGALRM);
	act.sa_flags = argc > 1 ? SA_ONSTACK : 0;
	act.sa_handler = on_fault;
	sigaction(SIGSEGV, &act, 0);
	act.sa_handler = on_alarm;
	act.sa_flags |= SA_RESTART;
	sigaction(SIGALRM, &act, 0);
	/* stdio reads ahead where there is more, and poll would not see that. */
	setvbuf(stdin, 0, _IONBF, 0);
	for (const char *command = "faults 3\n"; command; command = fgets(line, sizeof line, stdin)) {
		if (!strcmp(command, "end\n"))
			return 0;
		obeys(command);
	}
	return 1;
}
