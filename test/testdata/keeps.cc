// Exceptions that come out of a function whose callers rely on what it leaves alone,
// through the code in its place.
#include <cstdio>
#include <cstdlib>

static volatile long seen;

extern "C" {
__attribute__((noinline)) static long step(long a, long b) { return a * 3 + b; }
__attribute__((noinline)) static void throws(long n)
{
	if (n % 3 == 0)
		throw n;
	seen += n;
}
}

struct told {
	long *to;
	~told() { ++*to; }
};

__attribute__((noinline)) long work(long n)
{
	long x = n * 3, y = n * 5, z = n * 7, s = 0, ends = 0;
	for (long i = 0; i < n; i++) {
		try {
			told t{&ends};
			s += step(x, i) + y * z;
			throws(i);
			x += y, y ^= z;
		} catch (long thrown) {
			s += step(thrown, y);
			z += thrown;
		}
	}
	return s + x + y + z + ends;
}

int main(int argc, char **) { return std::printf("%ld\n", work(100 + argc)) < 0; }
