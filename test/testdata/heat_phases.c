/* Touches known pages in phases: in each, those of its own once (in every second with a pause in
 * between, so that a slice may end there), then one that all have again and again, until there is
 * a byte to read. The last phase but one is a child's. Without bytes it ends. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 128, PHASES = 4, OWN = 5 };

static unsigned char *base = (unsigned char *)0x200000000000;

__attribute__((noinline)) static void store(uint64_t *to, uint64_t value) { *to = value; }
__attribute__((noinline)) static uint64_t load(const uint64_t *from) { return *from; }

static volatile uint64_t total;

static int touch(int phase)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	char byte;
	for (int i = 0; i < OWN; i++) {
		if (phase % 2 && i == 2)
			usleep(60000);
		store((uint64_t *)(base + (10 + 20 * phase + 2 * i) * PAGE), 1);
	}
	dprintf(1, "phase %d\n", phase);
	do
		total += load((uint64_t *)base);
	while (poll(&in, 1, 1) == 0);
	return read(0, &byte, 1) == 1;
}

int main(void)
{
	if (mmap(base, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != base)
		return 1;
	for (int phase = 0; phase < PHASES; phase++) {
		if (phase != PHASES - 2) {
			if (!touch(phase))
				return 0;
			continue;
		}
		int status = 1;
		pid_t child = fork();
		if (child == 0)
			_exit(touch(phase) ? 3 : 0);
		waitpid(child, &status, 0);
		if (WEXITSTATUS(status) != 3)
			return 0;
	}
	return 0;
}
