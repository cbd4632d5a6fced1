/* Variables of which it is known what is done with them: a line for each, with the bytes that are read and
 * written, from FIRST up to, and without, END. What is beside them is nobody's. */
#include <stdio.h>
#include <string.h>

#define ALIGNED(n) __attribute__((aligned(n)))

/* Each has granules of 8 bytes of its own. */
ALIGNED(8) unsigned char read_only[256] = {1, 2, 3};
ALIGNED(8) unsigned char written_only[512];
ALIGNED(8) unsigned char both[40] = {7};
ALIGNED(8) unsigned char untouched[3000];
ALIGNED(8) const unsigned char constant[64] = {4, 5};
ALIGNED(4096) static unsigned char pages[5 * 4096];

/* These have one granule together. */
ALIGNED(8) struct {
	unsigned char bytes[3];
} shared_a;

__attribute__((noinline)) static unsigned load(const volatile unsigned char *from, long first, long end)
{
	unsigned sum = 0;
	for (long i = first; i < end; i++)
		sum += from[i];
	return sum;
}

__attribute__((noinline)) static void store(volatile unsigned char *to, long first, long end)
{
	for (long i = first; i < end; i++)
		to[i] = (unsigned char)i;
}

static unsigned sum;

static void reads(const char *name, const unsigned char *of, long first, long end)
{
	sum += load(of, first, end);
	printf("object %s r %ld %ld\n", name, first, end);
}

static void writes(const char *name, unsigned char *of, long first, long end)
{
	store(of, first, end);
	printf("object %s w %ld %ld\n", name, first, end);
}

int main(void)
{
	reads("read_only", read_only, 16, 100);
	writes("written_only", written_only, 0, 512);
	reads("both", both, 0, 8);
	writes("both", both, 9, 33);
	reads("constant", constant, 63, 64);
	writes("pages", pages, 4096, 4097);
	writes("pages", pages, 3 * 4096 - 8, 3 * 4096 + 8);
	writes("shared_a", shared_a.bytes, 1, 2);
	printf("untouched of %d, sum %u\n", (int)(sizeof untouched), sum & 0);
	return 0;
}
