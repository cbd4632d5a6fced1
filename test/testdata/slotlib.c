/* A library that calls its own function by the PLT, since others may put theirs in front. */
#include <string.h>

long slot_target(long x);
long slot_calls(long x);
long slot_jumps(long x);
extern const unsigned char slot_call_site[], slot_jump_site[];

/* Both are behind what entries are overwritten with, and no body is moved whole. */
__asm__(".text\n.p2align 4\n.globl slot_target\n.type slot_target, @function\n"
	"slot_target: lea 1(%rdi), %rax\n\timul $3, %rax, %rax\n\tret\n.size slot_target, .-slot_target\n"
	".p2align 4\n.globl slot_calls\n.type slot_calls, @function\n"
	"slot_calls: push %rbx\n\tlea 2(%rdi), %rbx\n\tmov %rbx, %rdi\n"
	".globl slot_call_site\n.hidden slot_call_site\n"
	"slot_call_site: call slot_target@PLT\n\tadd %rbx, %rax\n\tpop %rbx\n\tret\n.size slot_calls, .-slot_calls\n"
	".p2align 4\n.globl slot_jumps\n.type slot_jumps, @function\n"
	"slot_jumps: push %rbx\n\tlea 3(%rdi), %rbx\n\tmov %rbx, %rdi\n\tcall slot_calls@PLT\n"
	"\tmov %rax, %rdi\n\tpop %rbx\n"
	".globl slot_jump_site\n.hidden slot_jump_site\n"
	"slot_jump_site: jmp slot_target@PLT\n.size slot_jumps, .-slot_jumps\n");

static const char *leads(const unsigned char *site)
{
	int distance;
	memcpy(&distance, site + 1, sizeof distance);
	site += 5 + distance;
	if (memcmp(site, "\xf3\x0f\x1e\xfa", 4) == 0)
		site += 4;
	site += *site == 0xf2;
	return site[0] == 0xff && site[1] == 0x25 ? "plt" : "elsewhere";
}

const char *slot_call_leads(void) { return leads(slot_call_site); }
const char *slot_jump_leads(void) { return leads(slot_jump_site); }
