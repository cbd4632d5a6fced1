/* Jumps whose targets no table of addresses tells: by differences of labels, as the manual of gcc
 * shows them and printf of glibc has them, and by a switch of -mcmodel=large, whose table is found
 * by adding two numbers. Built with and without that. And data among code, which looks like it. */
#include <stdio.h>

__attribute__((noipa)) unsigned add(unsigned a) { return a + 1; }
__attribute__((noipa)) unsigned mul(unsigned a) { return a * 3; }

__attribute__((noipa)) unsigned labels(const unsigned char *p)
{
	static const int to[] = { &&end - &&end, &&one - &&end, &&two - &&end, &&three - &&end, &&four - &&end };
	unsigned x = 0, n = 0;
#define next goto *(&&end + to[*p++])
	next;
one:
	x = add(x);
	n = 0;
two:
	n += 2;
	next;
three:
	x = mul(x);
	n = 7;
four:
	x += n;
	next;
end:
	return x + n;
}

__attribute__((noipa)) unsigned cases(const unsigned char *p, int n)
{
	unsigned x = 0, y = 1;
	while (n--)
		switch (*p++) {
		case 0: x = add(x); y = 0; /* fall through */
		case 1: y += 2; break;
		case 2: x = add(y); y = 7; /* fall through */
		case 3: x += y; break;
		case 4: x ^= 5; /* fall through */
		case 5: y = 3; /* fall through */
		case 6: x = add(x) ^ y; break;
		case 7: x -= y; y = add(x); break;
		default: x++;
		}
	return x * 31 + y;
}

/* All of it is also come to from above. */
static volatile unsigned sum;
static volatile unsigned char changed;
__attribute__((noipa)) void more(void) { sum++; }

__attribute__((noipa)) void falls(unsigned n, unsigned first)
{
	switch (first) {
		do {
		case 0: more(); /* fall through */
		case 1: changed++; /* fall through */
		case 2: sum ^= 5; more(); /* fall through */
		case 3: changed ^= 1; /* fall through */
		case 4: more(); /* fall through */
		case 5: sum += changed; /* fall through */
		case 6: more(); /* fall through */
		default:;
		} while (--n > 0);
	}
}

/* Labels whose addresses are in instructions only. */
__attribute__((noipa)) void picks(unsigned n)
{
	void *to = n % 3 == 0 ? &&one : n % 3 == 1 ? &&two : &&three;
	goto *to;
	do {
	one:
		more();
		changed++;
	two:
		sum ^= 5;
		more();
		changed ^= 1;
	three:
		sum += changed;
	} while ((n >>= 1) > 3);
}

unsigned sums(void);
__asm__(".text\n"
	".type sums, @function\n"
	"sums:\n"
	"	xor %eax, %eax\n"
	"	lea 2f(%rip), %rdx\n"
	"	xor %ecx, %ecx\n"
	"1:	add (%rdx,%rcx,4), %eax\n"
	"	inc %ecx\n"
	"	cmp $8, %ecx\n"
	"	jne 1b\n"
	"	ret\n"
	"2:	.long 0xc301c301, 0xc801c801, 0xc801c801, 0xc801c801, 0xc801c801, 0xc801c801, 0xc801c801, 0xc301c301\n"
	".size sums, .-sums\n");

unsigned behind(void);
__asm__(".type behind, @function\n"
	"behind: mov $1, %eax\n"
	"	mov $2, %edx\n"
	"	call 1f\n"
	"	.long 0xc801c801, 0xc801c801\n"
	"1:	pop %rdx\n"
	"	mov (%rdx), %eax\n"
	"	ret\n"
	".size behind, .-behind\n");

/* Assembly goes on in another function, just behind its first byte. */
long saves(long), enters(long);
__asm__(".type saves, @function\n"
	"saves:	push %rbx\n"
	"	push %rbx\n"
	"	pop %rbx\n"
	"	lea 1(%rdi), %rax\n"
	"	pop %rbx\n"
	"	ret\n"
	".size saves, .-saves\n"
	".p2align 4\n"
	".type enters, @function\n"
	"enters: lea saves+1(%rip), %rax\n"
	"	push %rbx\n"
	"	jmp *%rax\n"
	".size enters, .-enters\n");

enum { N = 10000 };

int main(void)
{
	static unsigned char codes[N + 1], values[N];
	static const char *const formats[] = { "%hp %hhp\n", "%ld %hhd %lc\n", "%-8hd|%+.3hd|%#lx\n", "%5$s %2$d %1$p\n", "%zd %jx %tu %qd\n", "%y %hy\n" };
	for (int i = 0; i < N; i++) {
		codes[i] = 1 + (i * 7 + i / 3) % 4;
		values[i] = (i * 7 + i / 3) % 9;
	}
	long times = 0;
	for (int i = 0; i < N; i++)
		falls(1 + i % 5, i % 7), picks(i), times = enters(saves(times));
	printf("%u %u %u %u %u %u %ld\n", labels(codes), cases(values, N), sum, changed, sums(), behind(), times);
	for (unsigned i = 0; i < sizeof formats / sizeof *formats; i++)
		printf(formats[i], 67L, 68L, 69L, 70L, "more");
	return 0;
}
