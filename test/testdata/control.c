/* A program that controls how it is counted (dynprof.h). The first argument says
 * what it does; it prints what it finds wrong, and "ok". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dynprof.h"
#include "expect.h"
#include "pin.h"

enum { THREADS = 2, SHAPES = 5 };

/* ---- functions of all shapes that a stub can have ---------------------- */

OWN int whole(int x)
{
	__asm__ volatile("");
	return x + 1;
}

OWN int outer(int x) /* calls: only its beginning moves */
{
	int y = whole(x) + 2;
	__asm__ volatile("");
	return y + 3;
}

OWN int loops(int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++) {
		__asm__ volatile("");
		sum += i;
	}
	return sum;
}

int carries(int x); /* x + carry: reads a flag that its caller sets */
int narrow(int x);  /* shorter than a jump, and no padding */
int behind(int x);
__asm__(".text\n.globl carries, narrow, behind\n"
	".type carries,@function\n"
	"carries: mov $0,%eax\n adc %edi,%eax\n ret\n .size carries,.-carries\n"
	".p2align 4\n"
	".type narrow,@function\n"
	"narrow: mov %edi,%eax\n ret\n .size narrow,.-narrow\n"
	".type behind,@function\n"
	"behind: lea 5(%rdi),%eax\n nop\n nop\n nop\n ret\n .size behind,.-behind\n"
	".fill 32,1,0x90\n");

OWN static int call_carries(int x)
{
	int y;
	__asm__ volatile("stc\n call carries" : "=a"(y) : "D"(x) : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory");
	return y;
}

static const char *const names[SHAPES] = {"whole", "outer", "loops", "carries", "narrow"};

/* Calls every shape once; whole twice. */
OWN static int round_of_calls(int i)
{
	return whole(i) != i + 1 || outer(i) != i + 6 || loops(4) != 6 || call_carries(i) != i + 1 || narrow(i) != i;
}

/* The calls of every shape are those of so many rounds. */
static void expect_rounds(const char *when, long rounds)
{
	char what[100];
	for (int i = 0; i < SHAPES; i++) {
		snprintf(what, sizeof what, "%s, calls of %s", when, names[i]);
		expect(what, dynprof_calls(0, names[i]), i == 0 ? 2 * rounds : rounds);
	}
}

/* ---- threads ---------------------------------------------------------- */

static pthread_barrier_t begin, end;
static int quit;
static long made[THREADS];

/* Rounds of calls between two barriers. */
static void *in_step(void *arg)
{
	pin((int)(long)arg);
	for (;;) {
		pthread_barrier_wait(&begin);
		if (quit)
			return 0;
		for (int i = 0; i < 100; i++)
			wrong |= round_of_calls(i);
		pthread_barrier_wait(&end);
	}
}

static void start(pthread_t *t, void *(*f)(void *))
{
	pthread_barrier_init(&begin, 0, THREADS + 1);
	pthread_barrier_init(&end, 0, THREADS + 1);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], 0, f, (void *)i);
}

static void step(void)
{
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
}

/* Paused and resumed while the threads are held. */
static void exact(void)
{
	pthread_t t[THREADS];
	long rounds = 0;
	start(t, in_step);
	for (int i = 0; i < 300; i++) {
		int pause = i % 3 == 1;
		if (i % 3 == 1)
			expect("pause", dynprof_pause(), 0);
		if (i % 3 == 2)
			expect("resume", dynprof_resume(), 0);
		expect("active", dynprof_active(), pause ? 2 : 1);
		step();
		rounds += pause ? 0 : 100 * THREADS;
		if (i % 50 == 0)
			expect_rounds("in step", rounds);
		if (i % 100 == 99) {
			expect("reset", dynprof_reset(), 0);
			rounds = 0;
			expect_rounds("after reset", rounds);
		}
	}
	step();
	expect_rounds("at the end", rounds + 100 * THREADS);
	quit = 1;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], 0);
}

static void *hammer(void *arg)
{
	pin((int)(long)arg);
	pthread_barrier_wait(&begin);
	int bad = 0;
	long n = 0;
	for (; !__atomic_load_n(&quit, __ATOMIC_RELAXED); n++)
		bad |= round_of_calls((int)n & 0xffff);
	made[(long)arg] = n;
	return (void *)(long)bad;
}

static void *flip(void *arg)
{
	for (long i = 0; i < (long)arg; i++)
		if ((i & 1 ? dynprof_resume() : dynprof_pause()) != 0)
			wrong = 1;
	return 0;
}

/* Paused and resumed while the threads are at it, by two at a time. */
static void flips(long n)
{
	pthread_t t[THREADS], other;
	start(t, hammer);
	pthread_barrier_wait(&begin);
	pthread_create(&other, 0, flip, (void *)n);
	flip((void *)n);
	pthread_join(other, 0);
	expect("resume", dynprof_resume(), 0);
	__atomic_store_n(&quit, 1, __ATOMIC_RELAXED);
	long all = 0, counted = dynprof_calls(0, "outer");
	for (int i = 0; i < THREADS; i++) {
		void *bad;
		pthread_join(t[i], &bad);
		expect("wrong results", (long)bad, 0);
		all += made[i];
	}
	counted = dynprof_calls(0, "outer");
	if (counted <= 0 || counted > all)
		fail("calls of outer, at most", counted, all);
	expect("reset", dynprof_reset(), 0);
	for (int i = 0; i < 1000; i++)
		round_of_calls(i);
	expect_rounds("after the flips", 1000);
}

/* ---- processes -------------------------------------------------------- */

struct shared { pthread_barrier_t begin, end; int wrong; };

/* A pause is one of the whole fork tree, whoever asks for it. */
static void forks(const char *library)
{
	enum { CHILDREN = 3 };
	struct shared *s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&s->begin, &attr, CHILDREN + 1);
	pthread_barrier_init(&s->end, &attr, CHILDREN + 1);
	for (int c = 0; c < CHILDREN; c++) {
		if (fork() > 0)
			continue;
		/* Every child loads a library: the arenas may lie at the same address. */
		void *l = library ? dlopen(library, RTLD_NOW) : 0;
		int (*late)(int) = l ? (int (*)(int))dlsym(l, "late_step") : 0;
		for (int i = 0; i < 5; i++) {
			pthread_barrier_wait(&s->begin);
			if (c == 1 && i == 1)
				s->wrong |= dynprof_pause() < 0;
			if (c == 2 && i == 3)
				s->wrong |= dynprof_resume() < 0;
			pthread_barrier_wait(&s->end);
			pthread_barrier_wait(&s->begin);
			for (int k = 0; k < 100; k++)
				s->wrong |= round_of_calls(k) || (late && late(k) == 0x7fffffff);
			pthread_barrier_wait(&s->end);
		}
		_exit(0);
	}
	for (int i = 0; i < 5; i++) {
		for (int k = 0; k < 2; k++) {
			pthread_barrier_wait(&s->begin);
			pthread_barrier_wait(&s->end);
		}
		static const int counted[] = {1, 1, 1, 2, 3}; /* paused in rounds 1 and 2 */
		expect_rounds("of all children", 100 * CHILDREN * counted[i]);
	}
	while (wait(0) > 0)
		;
	wrong |= s->wrong;
}

/* ---- asked by somebody else ------------------------------------------- */

/* Does as many rounds as each line says, and answers. */
static void serve(int in, int out)
{
	char c;
	for (long n = 0; read(in, &c, 1) == 1;) {
		if (c != '\n') {
			n = 10 * n + c - '0';
			continue;
		}
		for (int i = 0; i < n; i++)
			wrong |= round_of_calls(i);
		n = 0;
		if (write(out, "done\n", 5) != 5)
			_exit(3);
	}
}

/* Leaves everything behind, as daemons do. */
static void be_a_daemon(const char *in, const char *out)
{
	if (fork() > 0)
		_exit(0);
	setsid();
	if (fork() > 0)
		_exit(0);
	if (chdir("/"))
		_exit(4);
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	int from = open(in, O_RDONLY), to = open(out, O_WRONLY | O_APPEND);
	if (from != 0 || to != 1)
		_exit(5);
	serve(from, to);
	_exit(wrong);
}

static int signalled;
static void on_child(int s) { signalled = s; }

/* Nobody has become our child, here or before the exec. */
static void alone(void)
{
	signal(SIGCHLD, on_child);
	for (int i = 0; i < 20; i++) {
		expect("children", waitpid(-1, 0, WNOHANG | __WALL), -1);
		expect("errno", errno, ECHILD);
		usleep(10000);
	}
	expect("signalled", signalled, 0);
}

/* As the first process of a container does: waits for all children. */
static void adopt(void)
{
	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			_exit(0);
	int n = 0;
	while (wait(0) > 0)
		n++;
	expect("children", n, 3);
}

/* ---- the rest --------------------------------------------------------- */

static void finds(const char *self)
{
	const char *base = strrchr(self, '/') + 1;
	int64_t f = dynprof_find(base, "outer");
	struct dynprof_function info = {.size = sizeof info};
	expect("by path", dynprof_find(self, "outer"), f);
	static const char *volatile entry = (const char *)outer; /* an address inside that code has may be a label's */
	expect("by address", dynprof_find_address(entry + 1), f);
	expect("info", dynprof_function_info(f, &info), 0);
	if (strcmp(info.name, "outer") || strcmp(info.object, self) || info.address != (uint64_t)outer || !info.counted)
		fail("info", 0, 1);
	expect("another object", dynprof_find("libc.so.6", "outer"), -2);
	expect("no name", dynprof_find(0, "no such function"), -2);
	expect("not counted", dynprof_calls(base, "_start"), -61);
	expect("beyond the last", dynprof_calls_of(dynprof_functions()), -2);
	expect("info beyond the last", dynprof_function_info(dynprof_functions(), &info), -2);
	expect("nowhere", dynprof_find_address("outer"), -2);
	info.size = 8;
	expect("too small", dynprof_function_info(f, &info), -22);
	for (int i = 0; i < 77; i++)
		round_of_calls(i);
	expect_rounds("found", 77);
	expect("calls", dynprof_calls_of(f), 77);
}

/* Short of address space for a view of the table. */
static void poor(void)
{
	struct rlimit none = {0, RLIM_INFINITY};
	setrlimit(RLIMIT_AS, &none);
	expect("functions", dynprof_functions(), -ENOMEM);
	expect("calls", dynprof_calls_of(0), -ENOMEM);
}

/* Leaves the table, a file named table, as one who died while it added objects. */
static void half_added(void)
{
	enum { GENERATION = 0x210 }; /* HdrGeneration */
	uint32_t odd = 1;
	char line[5000], path[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	int fd = -1;
	while (maps && fd < 0 && fgets(line, sizeof line, maps))
		if (sscanf(line, "%*s rw-s %*s %*s %*s %4095[^\n]", path) == 1 && strstr(path, "/table"))
			fd = open(path, O_RDWR);
	expect("generation", (int)pwrite(fd, &odd, sizeof odd, GENERATION), sizeof odd);
	close(fd);
	fclose(maps);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "exact"))
		exact();
	else if (!strcmp(mode, "flips"))
		flips(atol(argv[2]));
	else if (!strcmp(mode, "forks"))
		forks(argc > 2 ? argv[2] : 0);
	else if (!strcmp(mode, "finds"))
		finds(argv[0]);
	else if (!strcmp(mode, "poor"))
		poor();
	else if (!strcmp(mode, "off")) {
		printf("%d %d", dynprof_version(), dynprof_active());
		printf(" %d", dynprof_pause());
		printf(" %d", dynprof_active());
		printf(" %d", dynprof_resume());
		printf(" %d", dynprof_snapshot("/nowhere/at/all"));
		printf(" %d", (int)dynprof_calls(0, "main"));
		printf(" %d\n", dynprof_reset());
	} else if (!strcmp(mode, "serve"))
		serve(0, 1);
	else if (!strcmp(mode, "daemon"))
		be_a_daemon(argv[2], argv[3]);
	else if (!strcmp(mode, "alone"))
		alone();
	else if (!strcmp(mode, "adopt"))
		adopt();
	else if (!strcmp(mode, "exec")) {
		alone();
		round_of_calls(1);
		execl(argv[0], argv[0], "alone", (char *)0);
	} else if (!strcmp(mode, "snapshot")) {
		for (int i = 0; i < 10; i++)
			round_of_calls(i);
		if (argc > 3)
			half_added();
		expect("snapshot", dynprof_snapshot(argv[2]), 0);
		expect("nowhere", dynprof_snapshot("/nowhere/at/all"), -2);
		for (int i = 0; i < 10; i++)
			round_of_calls(i);
	} else if (!strcmp(mode, "blocks")) {
		for (int i = 0; i < 10; i++)
			round_of_calls(i);
		expect("pause", dynprof_pause(), -EOPNOTSUPP);
		expect("resume", dynprof_resume(), -EOPNOTSUPP);
		expect("reset", dynprof_reset(), -EOPNOTSUPP);
		expect("snapshot", dynprof_snapshot(argv[2]), 0);
		for (int i = 0; i < 10; i++)
			round_of_calls(i);
	}
	puts(wrong ? "wrong" : "ok");
	return wrong;
}
