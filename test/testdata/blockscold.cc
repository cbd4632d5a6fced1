// Cold parts that call by the PLT, which is one function to the planner: one that a jump leads to,
// and two that only what the unwinder comes to leads to, one of which does not come back.
#include <cstdio>

static long sink;

struct adds {
	int by;
	~adds() { sink += by; }
};

__attribute__((noinline)) void throws(int i)
{
	if (i % 3 == 0)
		throw i;
}

__attribute__((noinline)) int catches(int i)
{
	adds one{i}, two{i * 2};
	try {
		throws(i);
		return 1;
	} catch (int x) {
		for (int k = 0; k < 5; k++)
			sink ^= x * k;
		return 2;
	}
}

__attribute__((noinline)) int passes(int i)
{
	adds one{i * 3};
	throws(i);
	return i;
}

int main()
{
	long sum = 0;
	for (int i = 0; i < 3000; i++)
		sum += catches(i);
	for (int i = 0; i < 3000; i++) {
		try {
			sum += passes(i);
		} catch (int) {
		}
	}
	printf("%ld %ld\n", sum, sink);
}
