/* A program that calls libpcap's interpreter with one filter, and then with others
 * that lie where that one was (examples/specialise). */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

enum { PAGE = 4096 };

struct filter { unsigned length; struct sock_filter *at; };
struct header { struct timeval time; uint32_t captured, length; };
int pcap_offline_filter(const struct filter *, const struct header *, const uint8_t *packet);

#define LOAD(at) BPF_STMT(BPF_LD | BPF_H | BPF_ABS, at)
#define ASK(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define SAY(value) BPF_STMT(BPF_RET | BPF_K, value)

static struct sock_filter first[] = {LOAD(12), ASK(0x800, 0, 6), LOAD(14), ASK(1, 3, 0), ASK(2, 2, 0), ASK(3, 1, 0), ASK(4, 0, 1), SAY(100), SAY(5)};
static struct sock_filter other[] = {LOAD(12), ASK(0x800, 0, 6), LOAD(14), ASK(1, 3, 0), ASK(2, 2, 0), ASK(3, 1, 0), ASK(9, 0, 1), SAY(100), SAY(5)};
static struct sock_filter shorter[] = {LOAD(12), ASK(0x800, 0, 1), SAY(7), SAY(8)};
static struct sock_filter similar[] = {LOAD(12), ASK(0x800, 0, 1), SAY(100), SAY(5)};

/* Calls the interpreter; prints a sum of what it says. */
static void filter(const char *what, struct sock_filter *at, int times)
{
	uint8_t packet[64] = {0};
	struct filter f = {9, at};
	uint64_t sum = 0;
	for (int i = 0; i < times; i++) {
		struct header h = {{0, 0}, i % 50 == 0 ? 15 : 64, 64};
		packet[12] = i % 7 ? 8 : 9;
		packet[15] = (uint8_t)(i % 11);
		sum = sum * 31 + (unsigned)pcap_offline_filter(&f, &h, packet);
	}
	printf("%s: %llx\n", what, (unsigned long long)sum);
}

int main(void)
{
	uint8_t *pages = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sock_filter *at = (struct sock_filter *)(pages + PAGE - sizeof shorter);
	memcpy(at, first, sizeof first); /* over both pages */
	filter("first", at, 5000);
	at[6].k = 5;
	filter("changed in place", at, 1000);
	memcpy(at, first, sizeof first);
	filter("first again", at, 1000);
	filter("at another place", first, 1000);
	filter("another", other, 1000);
	memcpy(at, other, sizeof other);
	filter("another in its place", at, 1000);
	munmap(pages + PAGE, PAGE);
	memcpy(at, shorter, sizeof shorter);
	filter("a shorter one at the end of what is mapped", at, 1000);
	memcpy(at, similar, sizeof similar);
	filter("another short one", at, 1000);
	filter("none", 0, 10);
	return 0;
}
