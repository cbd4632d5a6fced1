/* A translator in a file of its own. PLUGIN says what it does; see translator_plugin_test.go. */
#define _GNU_SOURCE
#include <dynprof.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const struct dynprof_api *d;

static const char *own_path(void)
{
	Dl_info info;
	return dladdr((void *)&d, &info) ? info.dli_fname : "";
}

/* Translates: the function's bytes are copied to a page and run there. Good for a
 * body without branches out of it. */
static void translates(const struct dynprof_event *e, void *user)
{
	const char *how = getenv("PLUGIN");
	(void)user;
	if (how && !strcmp(how, "unloads")) { /* its own handle, and that of its loader */
		void *self = dlopen(own_path(), RTLD_NOW | RTLD_NOLOAD);
		if (!self || dlclose(self) || dlclose(self))
			fputs("not closed\n", stderr);
	}
	if (strncmp(e->name, "leaf_", 5) || !e->code)
		return;
	unsigned char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(at, e->code, e->bytes);
	mprotect(at, 4096, PROT_READ | PROT_EXEC);
	int err = d->redirect(e->function, at, DYNPROF_COUNTED | DYNPROF_RAW); /* a copy: it changes what the function does */
	fprintf(stderr, "%s translated: %d\n", e->name, err);
}

int dynprof_plugin_init(const struct dynprof_api *api)
{
	const char *how = getenv("PLUGIN");
	d = api;
	if (how && !strcmp(how, "fails"))
		return 1;
	if (how && !strcmp(how, "twice") && api->register_translator(translates, 7, DYNPROF_SYNCHRONOUS, 0) != 0)
		return 2;
	if (how && !strcmp(how, "twice"))
		return api->register_translator(translates, 7, DYNPROF_SYNCHRONOUS, 0) == -16 ? 0 : 3;
	int mode = how && !strcmp(how, "sync") ? DYNPROF_SYNCHRONOUS : DYNPROF_ASYNCHRONOUS;
	return api->size < sizeof *api || api->register_translator(translates, 100, mode, 0) != 0;
}
