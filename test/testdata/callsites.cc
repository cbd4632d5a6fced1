// Calls of every kind: direct ones and behind each other, tail calls, conditional ones too,
// through the PLT, by pointers and virtual functions, and some that do not come back.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#define NOIPA __attribute__((noipa))

static jmp_buf back;
static volatile unsigned sink;

extern "C" NOIPA void leaf() { sink = sink + 1; }
extern "C" NOIPA void other() { sink = sink + 2; }
extern "C" NOIPA void tails(unsigned n) { if (n % 3) leaf(); else other(); }
extern "C" NOIPA void leaves(unsigned n) { if (n % 5 == 0) longjmp(back, 1); sink = n; }
extern "C" NOIPA void throws(unsigned n) { if (n % 7 == 0) throw std::runtime_error("7"); sink = n; }
extern "C" NOIPA char *duplicates(const char *s) { return strdup(s); } // a tail call into libc
extern "C" NOIPA void two() { leaf(); other(); }

// above calls leaf by a conditional jump.
asm(".text; .globl above; .type above, @function; above: cmp $10, %edi; ja leaf; ret; .size above, .-above");
extern "C" void above(unsigned);

// behind calls leaf behind a call that may not come back.
asm(".globl behind; .type behind, @function\n"
    "behind: .cfi_startproc; push %rbx; .cfi_adjust_cfa_offset 8; mov %edi, %ebx; call leaves; call leaf\n"
    "mov %ebx, %edi; pop %rbx; .cfi_adjust_cfa_offset -8; jmp above; .cfi_endproc; .size behind, .-behind");
extern "C" void behind(unsigned);

struct shape {
	virtual NOIPA unsigned area(unsigned n) { return n; }
	virtual ~shape() {}
};
struct square : shape {
	NOIPA unsigned area(unsigned n) override { return n * n; }
};

extern "C" NOIPA unsigned sorted(unsigned n)
{
	unsigned list[8];
	for (unsigned i = 0; i < 8; i++)
		list[i] = n * 7 + i * 5 % 8;
	qsort(list, 8, sizeof *list, [](const void *a, const void *b) { return (int)*(const unsigned *)a - (int)*(const unsigned *)b; });
	return list[0];
}

extern "C" NOIPA unsigned depth(unsigned n) { return n == 0 ? 0 : depth(n - 1) + 1 + sink % 2; }

int main()
{
	void (*const by_pointer[])(unsigned) = {tails, above};
	shape *shapes[] = {new shape, new square};
	unsigned long sum = 0;
	for (volatile unsigned i = 0; i < 2000; i = i + 1) {
		by_pointer[i % 4 == 0](i);
		sum += shapes[i % 3 == 0]->area(i) + sorted(i) + depth(i % 9);
		char *s = duplicates("some text");
		sum += strlen(s);
		free(s);
		two();
		if (setjmp(back) == 0)
			behind(i);
		try {
			throws(i);
			two();
		} catch (std::exception &e) {
			sum += strlen(e.what());
		}
	}
	delete shapes[0];
	delete shapes[1];
	printf("%lu\n", sum);
	return 0;
}
