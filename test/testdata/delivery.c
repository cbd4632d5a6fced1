/* Where and how a callback runs, and what its thread finds behind it: the argument
 * says what to try. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <dynprof.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "expect.h"
#include "instead.h"

OWN long plain(long x) { __asm__ volatile("" ::: "memory"); return 3 * x + 1; }
OWN long other(long x) { __asm__ volatile("" ::: "memory"); return x + 1000000; }

static atomic_int events;
static int is_plain(const struct dynprof_event *e) { return !strcmp(e->name, "plain"); }
static void await(int n)
{
	for (int i = 0; i < 20000 && events < n; i++)
		usleep(1000);
}
static void calls_plain(int n)
{
	for (int i = 0; i < n; i++)
		expect("call", plain(i), 3 * i + 1);
}
static int64_t number(void) { return dynprof_find(0, "plain"); }

/* ---- all of a thread's state ------------------------------------------- */

enum { IMAGE = 16 << 10, HEADER = 512 };
typedef struct { _Alignas(64) uint8_t bytes[IMAGE]; } image;
static image mine, before, after, clobber;
static uint64_t components;

static void clobbers(const struct dynprof_event *e, void *user)
{
	(void)user;
	if (!is_plain(e))
		return;
	__asm__ volatile("xrstor64 %0" : : "m"(clobber), "a"((uint32_t)components), "d"(0));
	events++;
}

/* A valid image with numbers of its own in all registers. */
static void fill(image *m, uint32_t seed, uint16_t control, uint32_t mxcsr)
{
	memcpy(m->bytes, &control, sizeof control);
	m->bytes[4] = 0xff; /* x87 registers in use */
	memcpy(m->bytes + 24, &mxcsr, sizeof mxcsr);
	for (uint32_t i = 32; i < 416; i++)
		m->bytes[i] = (uint8_t)(i * 7 + seed);
	for (int r = 0; r < 8; r++) { /* finite numbers of 80 bits */
		m->bytes[32 + 16 * r + 7] |= 0x80;
		memcpy(m->bytes + 32 + 16 * r + 8, "\x00\x40\0\0\0\0\0", 8);
	}
	for (uint32_t c = 2; c < 8; c++) {
		uint32_t size, offset, ecx, edx;
		if (!(components >> c & 1))
			continue;
		__cpuid_count(13, c, size, offset, ecx, edx);
		for (uint32_t i = 0; i < size; i++)
			m->bytes[offset + i] = (uint8_t)(i * 11 + c + seed);
	}
	memcpy(m->bytes + HEADER, &components, sizeof components);
}

/* Whether registers as in mine are the same behind a call. */
static int kept(void)
{
	memset(&before, 0, sizeof before);
	memset(&after, 0, sizeof after);
	__asm__ volatile("xrstor64 mine(%%rip)\n\txsave64 before(%%rip)\n\t"
			 "lea -256(%%rsp), %%rsp\n\tmov $5, %%edi\n\tcall plain\n\tlea 256(%%rsp), %%rsp\n\t"
			 "mov components(%%rip), %%eax\n\txor %%edx, %%edx\n\txsave64 after(%%rip)\n\t"
			 "fninit\n\tpush $0x1f80\n\tldmxcsr (%%rsp)\n\tpop %%rax"
			 : : "a"((uint32_t)components), "d"(0)
			 : "memory", "cc", "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
			   "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
	return !memcmp(&before, &after, sizeof before) && !memcmp(before.bytes + 160, mine.bytes + 160, 256);
}

/* x87 with its control word, MXCSR, SSE, AVX, AVX-512. */
static void state(void)
{
	uint32_t a, b, c, d;
	__cpuid_count(13, 0, a, b, c, d);
	components = a & 0xe7;
	fill(&clobber, 99, 0x0c7f, 0x1fbf);
	fill(&mine, 3, 0x027f, 0xff80);
	expect("register", dynprof_register_translator(clobbers, 3, DYNPROF_SYNCHRONOUS, 0), 0);
	for (int round = 1; round <= 2; round++) {
		for (int i = 0; i < 5; i++)
			expect("kept", kept(), 1);
		expect("event", events, round);
		expect("rearm", dynprof_rearm(number(), 2), 0);
	}
}

/* ---- stacks ------------------------------------------------------------ */

static void counts(const struct dynprof_event *e, void *user)
{
	(void)user;
	events += is_plain(e);
}

long on_stack(long (*f)(long), long x, void *top);
__asm__(".text\n.type on_stack, @function\n"
	"on_stack: push %rbp; mov %rsp, %rbp; mov %rdi, %rax; mov %rsi, %rdi; mov %rdx, %rsp; call *%rax; mov %rbp, %rsp; pop %rbp; ret\n"
	".size on_stack, .-on_stack\n");

/* A coroutine's stack of 1 KB and the red zone, with nothing below. */
static void tiny(void)
{
	enum { ROOM = 1024 + 128 + 16 };
	uint8_t *at = mmap(0, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(at, 4096, PROT_NONE);
	expect("register", dynprof_register_translator(counts, 2, DYNPROF_SYNCHRONOUS, 0), 0);
	for (int round = 1; round <= 2; round++) {
		for (int i = 0; i < 4; i++)
			expect("call", on_stack(plain, 1, at + 4096 + ROOM), 4);
		expect("event", events, round);
		expect("rearm", dynprof_rearm(number(), 2), 0);
	}
}

static OWN long deeper(long n)
{
	volatile char room[1024];
	room[0] = (char)n;
	return n <= 0 ? room[0] : deeper(n - 1) + room[0];
}

static void overflows(const struct dynprof_event *e, void *user)
{
	if (!is_plain(e))
		return;
	events++;
	if (user)
		*(volatile int *)user = 1;
	deeper(1 << 20);
}

static void overflow(int mode)
{
	expect("register", dynprof_register_translator(overflows, 10, mode, 0), 0);
	calls_plain(10);
	await(1);
	usleep(20000);
	calls_plain(20);
	expect("event", events, 1);
}

/* A handler on the alternate stack crosses; what it has on that stack stays, though
 * the callback faults. */
static char alternate[64 << 10];
static int handled;
static void on_signal(int sig)
{
	volatile uint8_t room[32 << 10];
	stack_t now;
	int changed = 0;
	(void)sig;
	for (unsigned i = 0; i < sizeof room; i++)
		room[i] = (uint8_t)(i * 13);
	expect("call", plain(1), 4);
	for (unsigned i = 0; i < sizeof room; i++)
		changed += room[i] != (uint8_t)(i * 13);
	expect("changed", changed, 0);
	sigaltstack(0, &now);
	expect("on it", now.ss_flags & SS_ONSTACK && now.ss_sp == alternate, 1);
	handled++;
}

static void in_handler(long how)
{
	stack_t alt = {.ss_sp = alternate, .ss_size = sizeof alternate}, now;
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	sigaltstack(&alt, 0);
	sigaction(SIGUSR1, &act, 0);
	expect("register", dynprof_register_translator(how ? overflows : counts, 2, DYNPROF_SYNCHRONOUS, (void *)(how - 1)), 0);
	plain(1);
	raise(SIGUSR1);
	raise(SIGUSR1);
	expect("handled", handled, 2);
	expect("event", events, 1);
	sigaltstack(0, &now);
	expect("the alternate stack", now.ss_sp == alternate && now.ss_flags == 0, 1);
}

/* ---- libraries --------------------------------------------------------- */

/* A translator in a library that the program closes, or that closes itself. */
static void library(const char *path, int mode, int itself)
{
	void *lib = dlopen(path, RTLD_NOW);
	dynprof_translator *hot = lib ? (dynprof_translator *)dlsym(lib, "hot") : 0;
	expect("library", hot != 0, 1);
	expect("register", dynprof_register_translator(hot, 10, mode, itself ? lib : 0), 0);
	if (!itself)
		expect("closed", dlclose(lib), 0);
	calls_plain(20);
	usleep(100000);
	calls_plain(20);
	expect("another", instead(counts, 0, mode), 0);
	expect("rearm", dynprof_rearm(number(), 5), 0);
	calls_plain(5);
	await(1);
	expect("event", events, 1);
}

/* In libc's functions, with their locks held. */
static atomic_int in_libc;
static void armed_again(const struct dynprof_event *e, void *user)
{
	(void)user;
	in_libc += !strcmp(e->name, "malloc");
	dynprof_rearm(e->function, 100);
}

static void in_allocator(int mode)
{
	void *p[64] = {0};
	expect("register", dynprof_register_translator(armed_again, 100, mode, 0), 0);
	for (int i = 0; i < 20000; i++) {
		int k = i * 7 % 64;
		free(p[k]);
		p[k] = malloc((size_t)(i % 5000));
		memset(p[k], i, (size_t)(i % 5000));
	}
	for (int i = 0; i < 5000 && !in_libc; i++)
		usleep(1000);
	expect("events of malloc", in_libc > 0, 1);
}

/* ---- sandboxes --------------------------------------------------------- */

static void redirects(const struct dynprof_event *e, void *user)
{
	(void)user;
	if (is_plain(e) && !events++)
		dynprof_redirect(e->function, (void *)other, 1);
}

/* Only these system calls are allowed; others kill. usleep is among them, by a call
 * that the service thread does not make. */
static void sandbox(void)
{
	static const int allowed[] = {SYS_write, SYS_exit_group, SYS_exit, SYS_rt_sigreturn, SYS_newfstatat, SYS_clock_nanosleep};
	struct sock_filter code[2 * sizeof allowed / sizeof *allowed + 2];
	unsigned short n = 0;
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < sizeof allowed / sizeof *allowed; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	struct sock_fprog prog = {n, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	expect("filter", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog), 0);
}

/* Where no file may be opened what can be read counts as code. */
static void sandboxed(int mode)
{
	static char out[4096];
	setvbuf(stdout, out, _IOFBF, sizeof out);
	expect("register", dynprof_register_translator(redirects, 10, mode, 0), 0);
	usleep(50000); /* the service thread sleeps */
	sandbox();
	calls_plain(9);
	long x = plain(1);
	if (mode == DYNPROF_SYNCHRONOUS) {
		expect("event", events, 1);
		expect("redirected", x, 1000001);
	}
	for (int i = 0; i < 200; i++) { /* the service thread looks four times a second */
		usleep(mode == DYNPROF_SYNCHRONOUS ? 0 : 10000);
		x = plain(1);
	}
	expect("one of them", x == 4 || x == 1000001, 1);
}

static void without_proc(void)
{
	char dir[] = "/tmp/jailXXXXXX";
	expect("jail", mkdtemp(dir) && chroot(dir) == 0 && chdir("/") == 0, 1);
	expect("register", dynprof_register_translator(redirects, 10, DYNPROF_SYNCHRONOUS, 0), 0);
	calls_plain(9);
	expect("redirected", plain(1), 1000001);
	expect("unmapped", dynprof_redirect(number(), (void *)0x123456, 1), -EINVAL);
	expect("redirected", plain(1), 1000001);
	expect("restore", dynprof_restore(number()), 0);
	expect("restored", plain(1), 4);
}

/* ---- ends -------------------------------------------------------------- */

static void *ends_last(void *arg)
{
	usleep(50000);
	calls_plain(30);
	usleep(50000);
	puts(wrong ? "wrong" : "ok");
	return arg;
}

/* The process ends with the last thread of the program's. */
static void last_thread(int mode)
{
	pthread_t t;
	expect("register", dynprof_register_translator(counts, 10, mode, 0), 0);
	pthread_create(&t, 0, ends_last, 0);
	pthread_detach(t);
	pthread_exit(0);
}

static void blocks(const struct dynprof_event *e, void *user)
{
	(void)user;
	if (!is_plain(e))
		return;
	events++;
	for (;;)
		pause();
}

static void *is_blocked(void *arg)
{
	calls_plain(20);
	return arg;
}

/* A callback that never returns, and a program that ends. */
static void never(int mode)
{
	pthread_t t;
	expect("register", dynprof_register_translator(blocks, 10, mode, 0), 0);
	pthread_create(&t, 0, is_blocked, 0);
	await(1);
	calls_plain(100);
	expect("event", events, 1);
	if (mode == DYNPROF_ASYNCHRONOUS)
		pthread_join(t, 0);
	expect("away", dynprof_register_translator(0, 0, 0, 0), -EBUSY);
	calls_plain(10);
}

/* For what it executes: nothing that was writable becomes code. */
static int refuses_new_code(char **argv)
{
	enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 };
	if (prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) == 0)
		execv(argv[0], argv);
	perror("PR_SET_MDWE");
	return 77;
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "mdwe"))
		return refuses_new_code(argv + 2);
	const char *what = argc > 1 ? argv[1] : "";
	int mode = argc > 2 && !strcmp(argv[2], "sync");
	if (!strcmp(what, "state"))
		state();
	else if (!strcmp(what, "tiny"))
		tiny();
	else if (!strcmp(what, "overflow"))
		overflow(mode);
	else if (!strcmp(what, "handler"))
		in_handler(argc > 3 ? atol(argv[3]) : 0);
	else if (!strcmp(what, "closed") || !strcmp(what, "closes"))
		library(argv[3], mode, !strcmp(what, "closes"));
	else if (!strcmp(what, "malloc"))
		in_allocator(mode);
	else if (!strcmp(what, "sandbox"))
		sandboxed(mode);
	else if (!strcmp(what, "jail"))
		without_proc();
	else if (!strcmp(what, "last"))
		last_thread(mode);
	else if (!strcmp(what, "never"))
		never(mode);
	puts(wrong ? "wrong" : "ok");
	return wrong;
}
