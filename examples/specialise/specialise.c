/* A specialising translator: libpcap's interpreter of packet filters, compiled for
 * the filter that it is mostly called with.
 *
 *	u_int pcap_filter_with_aux_data(const struct bpf_insn *program, const u_char *packet,
 *		u_int length, u_int captured, const struct pcap_bpf_aux_data *aux)
 *
 *  1. It is hot: its calls go to watch(), which votes for the program that it is
 *     called with, and goes on in the original.
 *  2. SAMPLES calls later the winner is written as C, compiled by TinyCC in this
 *     process, and calls go to guarded(): the compiled code if the argument is
 *     that very program, byte for byte; the original if not.
 *  3. Every CHECK calls: if more than half of them went to the original, 1. again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <libtcc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <dynprof.h>

#include "bpf.h"

enum { CALLS = 1000, SAMPLES = 1000, CHECK = 1 << 20, PAGE = 4096 };

typedef uint32_t interpreter(const struct sock_filter *program, const uint8_t *packet, uint32_t length, uint32_t captured, const void *aux);

/* One filter and its code; never freed: a thread may be in it. */
struct version {
	const struct sock_filter *at; /* where the program that uses it has it */
	struct sock_filter *copy;
	size_t bytes;
	uint32_t (*code)(const uint8_t *packet, uint32_t length, uint32_t captured);
};

static const struct dynprof_api *dynprof;
static int64_t function; /* the interpreter */
static interpreter *original;

/* ---- which argument is common? ----------------------------------------- */

/* The vote of Boyer and Moore: what more than half of the calls have wins. The
 * program is copied here, by its caller: later it may be gone. */
static struct {
	uint32_t busy;
	uint32_t votes;
	const struct sock_filter *at;
	size_t length;
	struct sock_filter copy[MOST_INSTRUCTIONS];
} sample;

static int take(void) { return !__atomic_exchange_n(&sample.busy, 1, __ATOMIC_ACQUIRE); }
static void give(void) { __atomic_store_n(&sample.busy, 0, __ATOMIC_RELEASE); }

static void vote(const struct sock_filter *program)
{
	if (sample.votes && sample.at == program) {
		sample.votes++;
	} else if (sample.votes) {
		sample.votes--;
	} else {
		sample.at = program;
		sample.length = bpf_length(program);
		memcpy(sample.copy, program, sample.length * sizeof *program);
		sample.votes = 1;
	}
}

/* Calls go here for a while. Nobody waits: who comes while another votes does not. */
static uint32_t watch(const struct sock_filter *program, const uint8_t *packet, uint32_t length, uint32_t captured, const void *aux)
{
	if (!aux && take()) {
		vote(program);
		give();
	}
	return original(program, packet, length, captured, aux);
}

/* ---- the guard --------------------------------------------------------- */

static struct version *current;
static uint64_t others; /* calls with other arguments */

/* Page by page: another program may lie there now, shorter, and at the end of
 * what is mapped. It differs within its own length: none of the copy's beginnings
 * is a program (bpf_length). */
static int unchanged(const struct version *v)
{
	for (size_t i = 0, n; i < v->bytes; i += n) {
		n = PAGE - ((uintptr_t)v->at + i) % PAGE;
		n = n < v->bytes - i ? n : v->bytes - i;
		if (memcmp((const char *)v->at + i, (const char *)v->copy + i, n) != 0)
			return 0;
	}
	return 1;
}

static uint32_t guarded(const struct sock_filter *program, const uint8_t *packet, uint32_t length, uint32_t captured, const void *aux)
{
	const struct version *v = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
	if (program == v->at && !aux && unchanged(v))
		return v->code(packet, length, captured);
	__atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
	return original(program, packet, length, captured, aux);
}

/* ---- compiling --------------------------------------------------------- */

static void say(void *unused, const char *message)
{
	(void)unused;
	fprintf(stderr, "specialise: TinyCC: %s\n", message);
}

/* Returns the code of filter() in text; NULL if there is none. */
static void *compile(const char *text)
{
	void *code = 0;
	TCCState *tcc = tcc_new();
	if (!tcc)
		return 0;
	tcc_set_error_func(tcc, 0, say);
	tcc_set_options(tcc, "-nostdlib -nostdinc");
	tcc_set_output_type(tcc, TCC_OUTPUT_MEMORY);
	int size = tcc_compile_string(tcc, text) == 0 ? tcc_relocate(tcc, 0) : -1;
	if (size > 0) {
		void *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at != MAP_FAILED && tcc_relocate(tcc, at) == 0 && mprotect(at, size, PROT_READ | PROT_EXEC) == 0)
			code = tcc_get_symbol(tcc, "filter");
	}
	tcc_delete(tcc);
	return code;
}

/* The winner of the vote, compiled; NULL if there is none or it cannot be. */
static struct version *specialise(void)
{
	struct version *v = 0;
	if (!take())
		return 0; /* next time */
	size_t bytes = sample.length * sizeof *sample.copy;
	if (sample.votes > SAMPLES / 4 && bytes && (v = malloc(sizeof *v + bytes))) {
		*v = (struct version){sample.at, (struct sock_filter *)(v + 1), bytes, 0};
		memcpy(v->copy, sample.copy, bytes);
	}
	sample.votes = 0;
	give();
	char *text = v ? bpf_text(v->copy, bytes / sizeof *v->copy) : 0;
	if (text && getenv("SPECIALISE_SHOW"))
		fputs(text, stderr);
	if (text)
		v->code = compile(text);
	free(text);
	if (v && !v->code) {
		free(v);
		v = 0;
	}
	return v;
}

/* ---- events ------------------------------------------------------------ */

static enum { COLD, WATCHING, SPECIAL } state;

static void hot(const struct dynprof_event *e, void *user)
{
	(void)user;
	if (e->function != function)
		return;
	if (state == WATCHING) {
		struct version *v = specialise();
		if (v) {
			__atomic_store_n(&current, v, __ATOMIC_RELEASE);
			__atomic_store_n(&others, 0, __ATOMIC_RELAXED);
			state = SPECIAL;
			dynprof->redirect(function, (const void *)guarded, 1);
		}
		dynprof->rearm(function, CHECK);
		return;
	}
	if (state == SPECIAL && __atomic_exchange_n(&others, 0, __ATOMIC_RELAXED) < CHECK / 2) {
		dynprof->rearm(function, CHECK);
		return;
	}
	state = WATCHING;
	original = (interpreter *)e->original;
	dynprof->redirect(function, (const void *)watch, 1);
	dynprof->rearm(function, SAMPLES);
}

/* The interpreter has no name: bpf_filter, which has one, ends in a jump to it,
 * with a null pointer for aux. */
static int64_t find(void)
{
	static const uint8_t end[] = {0x45, 0x31, 0xc0, 0xe9}; /* xor %r8d,%r8d; jmp rel32 */
	struct dynprof_function info = {.size = sizeof info};
	const uint8_t *entry = dlsym(RTLD_DEFAULT, "bpf_filter"), *at;
	int32_t distance;
	if (!entry || dynprof->function_info(dynprof->find_address(entry), &info) != 0 || info.bytes < sizeof end + 4)
		return -1;
	at = memmem(entry, info.bytes - 4, end, sizeof end);
	if (!at)
		return -1;
	memcpy(&distance, at + sizeof end, sizeof distance);
	at += sizeof end + 4 + distance;
	int64_t found = dynprof->find_address(at);
	return dynprof->function_info(found, &info) == 0 && info.address == (uint64_t)at && info.counted ? found : -1;
}

int dynprof_plugin_init(const struct dynprof_api *api)
{
	dynprof = api;
	if (api->size < sizeof *api)
		return 1;
	function = find();
	if (function < 0) {
		fprintf(stderr, "specialise: no libpcap that is known\n");
		return 1;
	}
	int mode = getenv("SPECIALISE_SYNCHRONOUS") ? DYNPROF_SYNCHRONOUS : DYNPROF_ASYNCHRONOUS;
	return api->register_translator(hot, CALLS, mode, 0) != 0;
}
