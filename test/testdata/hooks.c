/* The hooks of -finstrument-functions: one counter for each function address,
 * in the file named by HOOKS, which all processes of a fork tree map. The
 * counts are there whatever way a process ends. The test reads the file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HOOK __attribute__((no_instrument_function, visibility("hidden")))

enum { SLOTS = 1 << 14 };

struct hooks {
	uint64_t bias;  /* run address minus link-time address */
	uint64_t lost;  /* calls for which there was no slot */
	struct {
		uint64_t function; /* run address; 0 is free */
		uint64_t calls;
	} slot[SLOTS];
};

static struct hooks *hooks;

HOOK int hooks_bias(struct dl_phdr_info *info, size_t size, void *bias);
HOOK struct hooks *hooks_open(void);
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *site);
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *site);

/* The first object is the executable. */
int hooks_bias(struct dl_phdr_info *info, size_t size, void *bias)
{
	(void)size;
	*(uint64_t *)bias = info->dlpi_addr;
	return 1;
}

struct hooks *hooks_open(void)
{
	const char *path = getenv("HOOKS");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (fd < 0 || ftruncate(fd, sizeof(struct hooks)) != 0)
		abort();
	struct hooks *h = mmap(0, sizeof *h, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED)
		abort();
	close(fd);
	dl_iterate_phdr(hooks_bias, &h->bias);
	return h;
}

/* The first call comes before there is a second thread or process. */
void __cyg_profile_func_enter(void *function, void *site)
{
	(void)site;
	if (!hooks)
		hooks = hooks_open();
	uint64_t f = (uint64_t)function;
	for (uint64_t i = 0; i < SLOTS; i++) {
		uint64_t *slot = &hooks->slot[(f + i) % SLOTS].function, none = 0;
		if (__atomic_load_n(slot, __ATOMIC_RELAXED) != f &&
		    !__atomic_compare_exchange_n(slot, &none, f, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) && none != f)
			continue;
		__atomic_fetch_add(slot + 1, 1, __ATOMIC_RELAXED);
		return;
	}
	__atomic_fetch_add(&hooks->lost, 1, __ATOMIC_RELAXED);
}

void __cyg_profile_func_exit(void *function, void *site)
{
	(void)function;
	(void)site;
}
