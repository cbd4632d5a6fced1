/* Steps through jumps by tables, and says what a handler is shown between the instruction that
 * reads the table and the jump. Several steps at one place that show the same are one. With an
 * argument each is printed; else a sum. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

#define STEPS_ON() __asm__ volatile("pushf\norl $0x100,(%%rsp)\npopf\n" ::: "memory", "cc")
#define STEPS_OFF() __asm__ volatile("pushf\nandl $~0x100,(%%rsp)\npopf\n" ::: "memory", "cc")

/* By distances, with instructions in between, where counts are put;
 * and by addresses. */
uint64_t distances(uint64_t n, uint64_t x), addresses(uint64_t n, uint64_t x);
extern const int distances_between[2], addresses_between[2]; /* from the functions' beginnings */
extern const char program[] __asm__("__executable_start");
__asm__(".text\n.globl distances\n.type distances,@function\n.p2align 4\ndistances:\n"
	"mov %rsi,%rax\nadd $1,%rax\n"
	"0:\ncmp $4,%rdi\nja 9f\n"
	"lea 7f(%rip),%r9\nmovslq (%r9,%rdi,4),%r8\n"
	".Lread_distance:\nlea 3(%rax),%rdx\nadd %r9,%r8\nmov %rdx,%rcx\nadd %rcx,%rdx\nxor %rdx,%rax\n.Ljumps_by_distance:\njmp *%r8\n"
	"1:\nadd $5,%rax\ndec %rdi\njns 0b\nret\n"
	"2:\nrol $3,%rax\ndec %rdi\njmp 0b\n"
	"3:\nsub $9,%rdi\njmp 0b\n"
	"9:\nret\n.size distances,.-distances\n"
	".section .rodata\n.p2align 2\n7:\n.long 1b-7b,2b-7b,1b-7b,2b-7b,3b-7b\n.text\n"
	".globl addresses\n.type addresses,@function\n.p2align 4\naddresses:\n"
	"lea 1(%rsi),%rdx\nnop\n"
	"0:\ncmp $3,%rdi\nja 9f\n"
	"lea 7f(%rip),%r9\nmov (%r9,%rdi,8),%rax\n"
	".Lread_address:\nlea 3(%rdx,%rdx,2),%rdx\nmov %rdx,%rcx\n.Ljumps_by_address:\njmp *%rax\n"
	"1:\nadd $5,%rdx\ndec %rdi\njmp 0b\n"
	"2:\nrol $3,%rdx\ndec %rdi\njmp 0b\n"
	"9:\nmov %rdx,%rax\nret\n.size addresses,.-addresses\n"
	".section .data.rel.ro,\"aw\"\n.p2align 3\n7:\n.quad 1b,2b,2b,1b\n"
	".section .rodata\n.globl distances_between,addresses_between\n.p2align 2\n"
	"distances_between: .long .Lread_distance-distances,.Ljumps_by_distance-distances\n"
	"addresses_between: .long .Lread_address-addresses,.Ljumps_by_address-addresses\n.text\n");

enum { SHOWN = 6, MOST = 4096 }; /* not the flags: those that nobody needs may be others */
static uint64_t seen[MOST][SHOWN];
static int count;

/* Whether a place is between, of a function at at. */
static int is_between(uint64_t rip, uint64_t at, const int between[2]) { return rip >= at + (uint64_t)between[0] && rip <= at + (uint64_t)between[1]; }

static void on_step(int sig, siginfo_t *info, void *context)
{
	static const int what[] = {REG_RIP, REG_R8, REG_R9, REG_RDI, REG_RDX, REG_RAX};
	const long long *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t rip = (uint64_t)g[REG_RIP];
	int by_address = is_between(rip, (uint64_t)addresses, addresses_between);
	uint64_t now[SHOWN], base = (uint64_t)program, differs = count == 0;
	(void)sig, (void)info;
	if (count == MOST || (!by_address && !is_between(rip, (uint64_t)distances, distances_between)))
		return;
	for (int i = 0; i < SHOWN; i++) {
		now[i] = (uint64_t)g[what[i]];
		if (now[i] - base < 16 << 20)
			now[i] -= base;
		if (what[i] == REG_R8 && by_address)
			now[i] = 0; /* of before */
		differs |= count && now[i] != seen[count - 1][i];
	}
	for (int i = 0; differs && i < SHOWN; i++)
		seen[count][i] = now[i];
	count += differs != 0;
}

int main(int argc, char **argv)
{
	struct sigaction a = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	uint64_t sum = 0, all = 0;
	(void)argv;
	sigaction(SIGTRAP, &a, 0);
	for (uint64_t n = 0; n < 5; n++) {
		STEPS_ON();
		sum += distances(n, n * 77);
		sum += addresses(n, n * 77);
		STEPS_OFF();
	}
	for (int i = 0; i < count; i++)
		for (int k = 0; k < SHOWN; k++) {
			all = all * 1099511628211u + seen[i][k];
			if (argc > 1)
				printf("%llx%c", (unsigned long long)seen[i][k], k == SHOWN - 1 ? '\n' : ' ');
		}
	printf("%llx %d %llx\n", (unsigned long long)sum, count, (unsigned long long)all);
	return 0;
}
