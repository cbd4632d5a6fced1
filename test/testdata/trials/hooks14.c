// A hooking library that copies the first 14 bytes of a function while the text is
// read-only, then makes it writable, and jumps far away there. The copy begins with a
// jump to the function's stub, which goes on where the hook stands.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static int hooked;
static volatile int sum;
__attribute__((noipa)) int helper(int n) { sum += n; return n + sum; }
int target(int n);
__asm__(".text\n.globl target\n.type target,@function\n"
	"target: push %rbp; mov %rsp,%rbp; sub $0x20,%rsp; mov %edi,-4(%rbp); mov -4(%rbp),%edi\n"
	"call helper; add -4(%rbp),%eax; call helper; leave; ret\n.size target,.-target\n");
static int (*original)(int);
__attribute__((noipa)) int hook(int n) { hooked++; return original(n) + 100; }

int main(void)
{
	enum { MOVED = 14 }; /* bytes of whole instructions, or of our jump and what is left of them */
	uint8_t *f = (uint8_t *)target, *copy = mmap((void *)(((uintptr_t)f - 0x1000000) & ~4095UL), 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *page = (uint8_t *)((uintptr_t)f & ~4095UL), far[MOVED] = {0xff, 0x25};
	int32_t to;
	memcpy(copy, f, MOVED);
	if (*f == 0xe9) { /* a jump is moved as such libraries do */
		memcpy(&to, f + 1, 4);
		to += (int32_t)(f - copy);
		memcpy(copy + 1, &to, 4);
	}
	memcpy(copy + MOVED, far, 6);
	memcpy(copy + MOVED + 6, &(uint8_t *){f + MOVED}, 8);
	original = (int (*)(int))copy;
	mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
	memcpy(far + 6, &(void *){(void *)hook}, 8);
	memcpy(f, far, MOVED);
	mprotect(page, 8192, PROT_READ | PROT_EXEC);
	int result = target(3);
	printf("%d %d\n", result, hooked);
	return 0;
}
