// Makes nodes by C++'s operator new in one function, and asks for too much in another. What it
// prints is how many loads sum() makes of these nodes, and how many blocks there were.
#include <cstdio>
#include <cstdlib>
#include <new>

struct node {
	long value;
	node *next;
};
struct alignas(64) wide {
	long value[8];
};

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif

ALONE node *make(long value)
{
	node *n = new node{value, nullptr};
	__asm__ volatile("" : "+r"(n));
	return n;
}
ALONE node *other(long value) { return new node{value, nullptr}; }
ALONE wide *make(double value)
{
	wide *w = new wide;
	w->value[0] = (long)value;
	return w;
}
ALONE long sum(const node *n)
{
	long s = 0;
	for (; n; n = n->next)
		s += n->value;
	return s;
}
ALONE bool big()
{
	try {
		volatile std::size_t much = 1UL << 62;
		char *p = new char[much];
		__asm__ volatile("" : "+r"(p));
		return true;
	} catch (const std::bad_alloc &) {
		return false;
	}
}

int main()
{
	enum { N = 1000 };
	node *mine = nullptr, *others = nullptr;
	for (int i = 0; i < N; i++) {
		node *a = make(static_cast<long>(i)), *b = other(i);
		a->next = mine;
		b->next = others;
		mine = a;
		others = b;
		wide *w = make(1.5);
		w->value[7] = i;
		delete w;
	}
	long s = sum(mine) - sum(others);
	if (big())
		std::abort();
	for (node *next; mine; mine = next) {
		next = mine->next;
		delete mine;
	}
	for (node *next; others; others = next) {
		next = others->next;
		delete others;
	}
	for (int i = 0; i < N; i++)
		sum(other(i));
	std::printf("%d %d\n", s == 0 ? 2 * N : -1, 2 * N);
}
