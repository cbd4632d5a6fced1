/* A plug-in for nocpuidneeded.c: it is told when step has been called 100 times, and sends its calls
 * to code of its own, which does what that function does. */
#include <dynprof.h>
#include <stdio.h>
#include <string.h>

static const struct dynprof_api *api;
static long calls;

static long instead(long x)
{
	__asm__ volatile("pxor %%xmm5,%%xmm5" : : : "xmm5", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11");
	calls++;
	return 3 * x + 1;
}

static void hot(const struct dynprof_event *e, void *user)
{
	(void)user;
	if (!strcmp(e->name, "step"))
		fprintf(stderr, "redirected: %d\n", api->redirect(e->function, (void *)instead, 0));
}

int dynprof_plugin_init(const struct dynprof_api *d)
{
	api = d;
	return d->register_translator(hot, 100, DYNPROF_SYNCHRONOUS, 0) != 0;
}

__attribute__((destructor)) static void end(void) { fprintf(stderr, "instead: %ld\n", calls); }
