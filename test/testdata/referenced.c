/* Touches pages that the kernel has filled, each a mapping of its own, and says which; and which of
 * them the kernel takes for referenced, by the bits that the CPU sets. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 128 };

static unsigned char *base = (unsigned char *)0x200000000000;

__attribute__((noinline)) static void store(uint64_t *to, uint64_t value) { *to = value; }
__attribute__((noinline)) static uint64_t load(const uint64_t *from) { return *from; }
__attribute__((noinline)) static void add(uint64_t *to) { *to += 7; }

/* No load is made ahead of its time: that would set the bit, too. */
static void wait(void) { __asm__ volatile("mfence\n\tlfence" ::: "memory"); }

static void referenced(void)
{
	char line[512];
	unsigned long from = 0, kb;
	FILE *f = fopen("/proc/self/smaps", "r");
	while (f && fgets(line, sizeof line, f)) {
		unsigned long first, end;
		if (sscanf(line, "%lx-%lx ", &first, &end) == 2)
			from = first;
		else if (sscanf(line, "Referenced: %lu kB", &kb) == 1 && kb && from >= (uint64_t)base && from < (uint64_t)base + PAGES * PAGE)
			printf("present %lu\n", (from - (uint64_t)base) / PAGE);
	}
	if (f)
		fclose(f);
}

int main(int argc, char **argv)
{
	static const char *const kinds[] = {"--", "r-", "-w", "rw"};
	unsigned char kind[PAGES] = {0};
	uint64_t random = argc > 1 ? strtoul(argv[1], 0, 0) : 1, total = 0;
	int zero = open("/dev/zero", O_RDONLY), refs = open("/proc/self/clear_refs", O_WRONLY);
	if (mmap(base, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != base)
		return 1;
	madvise(base, PAGES * PAGE, MADV_NOHUGEPAGE);
	for (int i = 0; i < PAGES; i += 2) {
		if (read(zero, base + i * PAGE, PAGE) != PAGE || mprotect(base + (i + 1) * PAGE, PAGE, PROT_NONE))
			return 1;
		random = random * 6364136223846793005u + 1442695040888963407u;
		kind[i] = random >> 62;
	}
	if (write(refs, "1", 1) != 1)
		return 1;
	for (int i = 0; i < PAGES; i += 2) /* the TLB's entries go, so that the CPU looks at the page tables again */
		if (mprotect(base + i * PAGE, PAGE, PROT_NONE) || mprotect(base + i * PAGE, PAGE, PROT_READ | PROT_WRITE))
			return 1;
	for (int i = 0; i < PAGES; i++) {
		uint64_t *at = (uint64_t *)(base + i * PAGE + 8 * (i % 500));
		wait();
		switch (kind[i]) {
		case 1:
			total += load(at);
			break;
		case 2:
			store(at, i);
			break;
		case 3:
			add(at);
			break;
		default:
			continue;
		}
		wait();
		printf("page %d %s\n", i, kinds[kind[i]]);
	}
	referenced();
	return total != 0;
}
