/* A handler for clang's XRay that counts: the least that a user of it would
 * write. The calls of each function number go to the file XRAY_COUNTS. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern int __xray_set_handler(void (*)(int32_t, int));
extern int __xray_patch(void);
extern uintptr_t __xray_function_address(int32_t);
extern size_t __xray_max_function_id(void);

static unsigned long calls[1 << 16];

static void count(int32_t function, int kind) {
	if (kind == 0) /* entry */
		calls[function & 0xffff]++;
}

__attribute__((constructor, xray_never_instrument)) static void begin(void) {
	__xray_set_handler(count);
	__xray_patch();
}

__attribute__((destructor, xray_never_instrument)) static void end(void) {
	const char *path = getenv("XRAY_COUNTS");
	FILE *f = path ? fopen(path, "w") : NULL;
	if (!f)
		return;
	/* Addresses are relative to this one, which nm knows, too. */
	fprintf(f, "0 %lx\n", (unsigned long)__xray_function_address);
	for (size_t i = 1; i <= __xray_max_function_id() && i < sizeof calls / sizeof *calls; i++)
		fprintf(f, "%lu %lx\n", calls[i], (unsigned long)__xray_function_address((int32_t)i));
	fclose(f);
}
