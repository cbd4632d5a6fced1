/* A library that a program loads later: how often the block of spin's loop runs is known, and
 * its functions have tables, loops, and calls by pointers. */
__attribute__((noipa)) unsigned late_spin(unsigned n)
{
	unsigned x = n;
	if (n)
		__asm__ volatile("1: lea 1(%0,%0,2), %0; dec %1; jnz 1b" : "+r"(x), "+r"(n) : : "cc");
	return x;
}

__attribute__((noipa)) static unsigned by_table(unsigned n)
{
	switch (n % 7) {
	case 0: return late_spin(1);
	case 1: return n * 3;
	case 2: return n ^ 5;
	case 3: return n - 9;
	case 4: return n + 77;
	case 5: return n << 2;
	default: return 11;
	}
}

__attribute__((noipa)) static unsigned once(unsigned n) { return late_spin(n); }
__attribute__((noipa)) static unsigned twice(unsigned n) { return late_spin(n) + late_spin(n); }

static unsigned (*volatile const ways[])(unsigned) = {once, twice};

/* Labels' addresses, which are not relocated yet when the library is planned. */
__attribute__((noipa)) static unsigned by_labels(unsigned n)
{
	static const void *const labels[] = {&&zero, &&one, &&two, &&three};
	unsigned sum = n;
	for (;;) {
		goto *labels[n & 3];
	one:
		sum += 3;
		n >>= 1;
		continue;
	two:
		sum ^= 9;
	three:
		n -= 1;
		continue;
	zero:
		if (!n)
			return sum;
		sum <<= 1;
		n -= 3;
	}
}

static unsigned made;

__attribute__((constructor)) static void start(void) { made = late_spin(5); }

/* For each seven rounds, the constructor apart: 1, four times 2 or 4, seven times 4. */
__attribute__((noipa)) unsigned late_work(unsigned rounds)
{
	unsigned sum = made;
	for (unsigned i = 0; i < rounds; i++)
		sum += by_table(i) + ways[i % 2](2) + late_spin(4) + by_labels(i);
	return sum;
}
