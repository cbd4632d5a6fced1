/* Calls the functions of kinds.S, which the test writes, with every register
 * and the stack around filled, and checks that nothing differs but what each
 * of them changes: in what they hand on, and behind their return. What they
 * change, it prints. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "state.h"

struct state {
	uint64_t gpr[16], flags, unused[7];
	uint8_t red[RED_ZONE], above[ABOVE], xsave[4096];
} __attribute__((aligned(64)));
_Static_assert(__builtin_offsetof(struct state, flags) == STATE_FLAGS, "flags");
_Static_assert(__builtin_offsetof(struct state, red) == STATE_RED, "red");
_Static_assert(__builtin_offsetof(struct state, above) == STATE_ABOVE, "above");
_Static_assert(__builtin_offsetof(struct state, xsave) == STATE_XSAVE, "xsave");

struct state in, seen, after;
uint8_t clean[4096] __attribute__((aligned(64)));
uint32_t components, captures;
uint64_t stepped; /* what capture adds to the flags, so that steps go on behind it */
void (*function)(void);
uint64_t host_rsp;
uint64_t canary_word, canary_table[8];
uint8_t canary_scratch[512] __attribute__((aligned(64)));
static uint8_t covered[4096]; /* the bytes of the XSAVE area that are state */
static uint8_t stack[8192] __attribute__((aligned(64)));
static struct state found; /* what every function finds in this call */
static uint8_t filled[sizeof stack], scratch[sizeof canary_scratch];

extern void run(void);
extern char run_returned[], capture[], capture_dead[], __executable_start[], _end[];

static const char *const registers[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};

/* What a function may change: its general registers by bits, and these. */
enum { FLAGS = 1 << 16, X87 = 1 << 17, MXCSR = 1 << 18, VECTOR = 1 << 19, STACK = 1 << 20,
	ABI = 1 << 21,  /* by the ABI it need not keep the flags */
	SMALL = 1 << 22 /* rcx is from 1 to 8 */ };

struct kind {
	const char *name;
	void (*entry)(void);
	unsigned changes;
};
#define X(name, changes) extern void name(void);
#include "kinds.h"
#undef X
static const struct kind kinds[] = {
#define X(name, changes) {#name, name, changes},
#include "kinds.h"
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const uint64_t flags[] = {0, 1, 0x14, 0x40, 0x80, 0x800, 0x8d5, 0xc01, 0x894, 0x881, 0x200055, 0x4d4};
static uint64_t alignment_check; /* its flag, if every access must be aligned */
static uint64_t trap;		 /* its flag, if every step is watched */
static int slow_paths;		 /* steps outside the program are expected */
enum { CALLS = sizeof flags / sizeof *flags, STATUS = 0x8d5, CONTROL = 0x240400 };

static int wrong;
static const char *now;
static unsigned call;

static void complain(const char *when, const char *what, uint64_t got, uint64_t want)
{
	if (++wrong < 40)
		printf("WRONG %s, call %u, %s: %s is %#lx, not %#lx\n", now, call, when, what, got, want);
}

static inline __attribute__((always_inline)) uint64_t mix(uint64_t x)
{
	x *= 0x9e3779b97f4a7c15;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9;
	return x ^ x >> 32;
}

/* An address of the program as an offset, so that it does not matter where it
 * is mapped. */
static inline __attribute__((always_inline)) uint64_t relative(uint64_t value)
{
	uint64_t off = value - (uint64_t)__executable_start;
	return off < (uint64_t)(_end - __executable_start) ? off : value;
}

static void prepare(void)
{
	memset(&found, 0, sizeof found);
	for (unsigned i = 0; i < sizeof filled; i++)
		filled[i] = (uint8_t)mix(i + 7 * call);
	for (unsigned i = 0; i < sizeof scratch; i++)
		scratch[i] = (uint8_t)(i * 5 + call);
	for (int i = 0; i < 16; i++)
		found.gpr[i] = mix((uint64_t)call << 8 | i);
	static const uint64_t counts[] = {0, 1, 2, 0x100000000, 0x100000001, 77};
	found.gpr[1] = counts[call % 6];
	found.gpr[4] = (uint64_t)stack + 4096;
	found.gpr[6] = (uint64_t)canary_scratch + 128;
	found.gpr[7] = (uint64_t)canary_scratch + 256;
	found.gpr[13] = (uint64_t)capture;
	found.gpr[14] = (uint64_t)canary_table;
	found.flags = flags[call] | alignment_check | (call == 4 ? trap : 0) | 0x202;
	uint8_t *x = found.xsave;
	for (unsigned i = 160; i < sizeof found.xsave; i++)
		if (covered[i])
			x[i] = (uint8_t)mix(i + 37 * call);
	for (unsigned i = 0; i < 8; i++) {
		memcpy(x + 32 + 16 * i, &(uint64_t){mix(i + call) | 1ull << 63}, 8);
		memcpy(x + 40 + 16 * i, &(uint16_t){(uint16_t)(0x3fff + i)}, 2);
	}
	memcpy(x, &(uint16_t){0x0e7f}, 2);
	memcpy(x + 2, &(uint16_t){0x4700 | 3 << 11}, 2);
	x[4] = 0xac;
	memcpy(x + 24, &(uint32_t){0xffff}, 4);
	memcpy(x + 512, &(uint64_t){components}, 8);
}

static void fill(void)
{
	in = found;
	memset(&seen, 0, sizeof seen);
	memset(&after, 0, sizeof after);
	captures = 0;
	memcpy(stack, filled, sizeof stack);
	memcpy(canary_scratch, scratch, sizeof scratch);
	canary_word = mix(call + 99);
}

/* Whether the extended state has the same bytes. Of the x87 part the addresses
 * of the last instruction are left out: the processor may note them or not. */
static void extended(const char *when, const struct state *s, unsigned changes)
{
	memset((uint8_t *)s->xsave + 6, 0, 18);
	for (unsigned i = 0; i < sizeof s->xsave; i++) {
		unsigned what = i < 160 ? X87 : VECTOR;
		if (i >= 24 && i < 28)
			what = MXCSR;
		if (!covered[i] || changes & what || s->xsave[i] == in.xsave[i])
			continue;
		char name[40];
		snprintf(name, sizeof name, "byte %u of the XSAVE area", i);
		complain(when, name, s->xsave[i], in.xsave[i]);
	}
}

static void check(const char *when, const struct state *s, uint64_t rsp, unsigned changes)
{
	for (int i = 0; i < 16; i++) {
		uint64_t want = i == 4 ? rsp : in.gpr[i];
		if (!(changes >> i & 1) && s->gpr[i] != want)
			complain(when, registers[i], s->gpr[i], want);
	}
	if ((s->flags & CONTROL) != (in.flags & CONTROL))
		complain(when, "control flags", s->flags & CONTROL, in.flags & CONTROL);
	if (!(changes & (FLAGS | ABI)) && (s->flags & STATUS) != (in.flags & STATUS))
		complain(when, "flags", s->flags & STATUS, in.flags & STATUS);
	extended(when, s, changes);
}

static uint64_t hash(const uint8_t *p, unsigned n)
{
	uint64_t h = 1, word;
	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&word, p, 8);
		h = mix(h ^ relative(word));
	}
	return h;
}

static void show(const char *when, const struct state *s, unsigned changes)
{
	printf(" %s", when);
	for (int i = 0; i < 16; i++)
		if (changes >> i & 1)
			printf(" %s=%lx", registers[i], relative(s->gpr[i]));
	if (!(changes & ABI))
		printf(" flags=%lx", s->flags & STATUS);
	printf(" x=%lx", hash(s->xsave, 416) ^ hash(s->xsave + 576, sizeof s->xsave - 576)); /* all but the header */
}

/* rsp: where the function finds its return address. */
static void stacks(const uint8_t *red, unsigned size, const char *when, unsigned changes, const uint8_t *want)
{
	for (unsigned i = 0; i < size; i++)
		if (!(changes & STACK) && red[i] != want[i] && (i < RED_ZONE || i >= RED_ZONE + 8)) {
			char name[40];
			snprintf(name, sizeof name, "the stack at %+d", (int)i - RED_ZONE);
			complain(when, name, red[i], want[i]);
		}
}

/* What a signal handler sees behind every instruction: steps that differ from
 * the one before, as a number and a hash. */
static struct {
	uint64_t hash, steps, last;
	int flags, verbose;
} watch;

static void step(int sig, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	int captured = g[REG_RIP] == (greg_t)capture || g[REG_RIP] == (greg_t)capture_dead;
	if (captured)
		stepped = trap;
	if (captured || g[REG_RIP] == (greg_t)run_returned)
		g[REG_EFL] &= ~(greg_t)trap;
	if (!watch.steps && g[REG_RIP] != (greg_t)function)
		return;
	if (slow_paths && (uint64_t)g[REG_RIP] - (uint64_t)__executable_start >= (uint64_t)(_end - __executable_start))
		return;
	uint64_t h = (uint64_t)sig + (uint64_t)info->si_code;
	for (int i = 0; i <= REG_RIP; i++)
		h = mix(h ^ (i == REG_RSP ? (uint64_t)g[i] - (uint64_t)stack : relative((uint64_t)g[i]))) + (uint64_t)i;
	if (watch.flags)
		h ^= (uint64_t)g[REG_EFL] & STATUS;
	if (h == watch.last)
		return;
	watch.last = h;
	watch.hash = mix(watch.hash ^ h);
	watch.steps++;
	if (watch.verbose)
		printf("  step %lx rsp=%lx rax=%llx flags=%llx\n", relative((uint64_t)g[REG_RIP]), (uint64_t)g[REG_RSP] - (uint64_t)stack,
		       g[REG_RAX], g[REG_EFL] & STATUS);
}

/* Functions that read the flags at their entry; elsewhere a count may change
 * them. */
static int keeps_flags(const char *name)
{
	static const char *const names[] = {"save_flags", "lahf", "adc", "rcl", "cmc", "cmov", "jcc"};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(name + strlen("canary_"), names[i], strlen(names[i])) == 0)
			return 1;
	return 0;
}

static void watch_steps(const char *name)
{
	static char own[1 << 16];
	stack_t alternate = {.ss_sp = own, .ss_size = sizeof own};
	struct sigaction a = {.sa_sigaction = step, .sa_flags = SA_SIGINFO | SA_ONSTACK}, set;
	sigaltstack(&alternate, 0);
	sigaction(SIGTRAP, &a, 0);
	sigaction(SIGTRAP, 0, &set);
	if (set.sa_sigaction != step)
		printf("WRONG handler\n"), wrong++;
	trap = 0x100;
	watch.verbose = name != 0;
}

static void one(const struct kind *k)
{
	now = k->name;
	fill();
	if (k->changes & SMALL)
		in.gpr[1] = 1 + call % 8;
	function = k->entry;
	memset(&watch, 0, __builtin_offsetof(__typeof__(watch), flags));
	watch.flags = keeps_flags(k->name);
	run();
	if (in.flags & trap)
		printf("%s %u: %lu steps, %lx\n", now, call, watch.steps, watch.hash);
	uint64_t rsp = in.gpr[4] - 8;
	uint8_t *red = (uint8_t *)rsp - RED_ZONE, *want = filled + (red - stack);
	check("returned", &after, rsp + 8, k->changes & ~(1 << 4));
	stacks(red, RED_ZONE + ABOVE, "returned", k->changes, want);
	printf("%s %u:", now, call);
	if (captures) {
		check("inside", &seen, rsp, k->changes);
		uint64_t ret;
		memcpy(&ret, seen.above, 8);
		if (!(k->changes & STACK) && ret != (uint64_t)run_returned)
			complain("inside", "return address", relative(ret), relative((uint64_t)run_returned));
		stacks(seen.red, RED_ZONE + ABOVE, "inside", k->changes, want);
		show("inside", &seen, k->changes);
		/* What it called may lie deeper; below its own red zone is no man's land. */
		unsigned deeper = seen.gpr[4] < rsp ? (unsigned)(rsp - seen.gpr[4]) : 0;
		printf(" stack=%lx", hash(seen.red + deeper, RED_ZONE + ABOVE - deeper));
	}
	show("returned", &after, k->changes & ~(1 << 4));
	printf(" stack=%lx data=%lx,%lx\n", hash(red, RED_ZONE + ABOVE), relative(canary_word), hash(canary_scratch, sizeof canary_scratch));
}

/* Which state components the processor has and where XSAVE puts them (SDM
 * volume 1, 13.4): x87, SSE, AVX and the three of AVX-512. */
static void find_components(void)
{
	unsigned a, b, c, d, high;
	__cpuid(1, a, b, c, d);
	if (!(c & bit_OSXSAVE))
		exit(99);
	__asm__("xgetbv" : "=a"(components), "=d"(high) : "c"(0));
	components &= 0xe7;
	memset(covered, 1, 28);
	memset(covered + 32, 1, 416 - 32);
	for (unsigned i = 2; i < 8; i++) {
		if (!(components >> i & 1))
			continue;
		__cpuid_count(0xd, i, a, b, c, d);
		if (b + a > sizeof covered)
			exit(98);
		memset(covered + b, 1, a);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "aligned") == 0)
		alignment_check = 0x40000;
	slow_paths = argc > 2 && strcmp(argv[2], "slow-paths") == 0;
	if (argc > 1 && strcmp(argv[1], "watched") == 0)
		watch_steps(argv[slow_paths ? 3 : 2]);
	find_components();
	memcpy(clean, &(uint16_t){0x37f}, 2);
	memcpy(clean + 24, &(uint32_t){0x1f80}, 4);
	for (int i = 0; i < 8; i++)
		canary_table[i] = (uint64_t)capture;
	for (call = 0; call < CALLS; call++) {
		prepare();
		for (int i = 0; i < KINDS; i++)
			if (!watch.verbose || strcmp(kinds[i].name, argv[argc - 1]) == 0)
				one(&kinds[i]);
	}
	for (int i = 0; i < KINDS; i++)
		printf("calls %s %d\n", kinds[i].name, CALLS);
	printf("components %x\n", components);
	return wrong != 0;
}
