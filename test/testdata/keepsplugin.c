/* Ordinary C code in the place of functions of keeps.c and keeps.cc, which calls the
 * original. KEEPS=raw: without a keeper. */
#include <dynprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long calls;
static long (*old_step)(long, long), (*old_many)(long, long, long, long, long, long, long, long), (*old_deep)(long);
static void (*old_note)(long), (*old_leaves)(long), (*old_throws)(long);
static double (*old_half)(double);

/* What the compiler may do anywhere. */
static void other(void)
{
	char text[64];
	calls++;
	snprintf(text, sizeof text, "%g %ld %s", calls * 0.3, calls, "all registers are used");
	__asm__ volatile("pxor %%xmm2,%%xmm2\n pxor %%xmm3,%%xmm3\n pxor %%xmm4,%%xmm4\n pxor %%xmm5,%%xmm5\n pxor %%xmm6,%%xmm6\n pxor %%xmm7,%%xmm7"
			 : : : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
			   "xmm6", "xmm7");
}

static long new_step(long a, long b) { other(); long r = old_step(a, b); other(); return r; }
static void new_note(long a) { other(); old_note(a); other(); }
static double new_half(double a) { other(); double r = old_half(a); other(); return r; }
static long new_deep(long n) { other(); long r = old_deep(n); other(); return r; }
static void new_leaves(long n) { other(); old_leaves(n); other(); }
static void new_throws(long n) { other(); old_throws(n); other(); }
static long new_many(long a, long b, long c, long d, long e, long f, long g, long h)
{
	other();
	long r = old_many(a, b, c, d, e, f, g, h);
	other();
	return r;
}

static void nothing(const struct dynprof_event *e, void *user) { (void)e, (void)user; }

int dynprof_plugin_init(const struct dynprof_api *d)
{
	static const struct { const char *name; void *code; void **old; } list[] = {
		{"step", (void *)new_step, (void **)&old_step}, {"note", (void *)new_note, (void **)&old_note},
		{"half", (void *)new_half, (void **)&old_half}, {"many", (void *)new_many, (void **)&old_many},
		{"deep", (void *)new_deep, (void **)&old_deep}, {"leaves", (void *)new_leaves, (void **)&old_leaves},
		{"throws", (void *)new_throws, (void **)&old_throws},
	};
	const char *how = getenv("KEEPS");
	if (d->register_translator(nothing, 0, DYNPROF_SYNCHRONOUS, 0))
		return 1;
	for (unsigned i = 0; i < sizeof list / sizeof *list; i++) {
		int64_t f = d->find(0, list[i].name);
		if (f < 0)
			continue; /* inlined, or not of this program */
		*list[i].old = (void *)d->original(f);
		int err = d->redirect(f, list[i].code, DYNPROF_COUNTED | (how && !strcmp(how, "raw") ? DYNPROF_RAW : 0));
		if (err)
			fprintf(stderr, "%s: %d\n", list[i].name, err);
	}
	return 0;
}
