/* One thread that never waits, and knows how far it is by a register and by memory: whoever leads it
 * back to where it was before is found out. Ends when stdin does. */
#include <poll.h>
#include <stdio.h>

static volatile unsigned long memory;

int main(void)
{
	struct pollfd in = {0, POLLIN, 0};
	puts("ready");
	fflush(stdout);
	for (unsigned long n = 1;; n++) {
		memory = memory + 1;
		if (memory != n) {
			printf("%lu, not %lu\n", memory, n);
			return 1;
		}
		if (n % (1 << 20) == 0 && poll(&in, 1, 0) != 0)
			return 0;
	}
}
