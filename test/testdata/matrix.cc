// The same for C++. Methods are defined outside of their classes, so that they
// are not inline and can hold a tally.
#include "tally.h"

#define SELF(symbol) do { TALLY(t_, symbol); ENTER_AS(t_); } while (0)

struct Shape {
	OWN Shape();
	OWN virtual ~Shape();
	virtual int area() const = 0;
};
struct Square : Shape {
	int side;
	OWN explicit Square(int s);
	OWN int area() const override;
};
struct Named {
	OWN virtual int name() const;
};
struct Circle : Shape, Named {
	int radius;
	OWN explicit Circle(int r);
	OWN int area() const override;
	OWN int name() const override;
};

Shape::Shape() { SELF("_ZN5ShapeC2Ev"); }
Shape::~Shape() { SELF("_ZN5ShapeD2Ev"); }
Square::Square(int s) : side(s) { SELF("_ZN6SquareC2Ei"); }
int Square::area() const { SELF("_ZNK6Square4areaEv"); return side * side; }
int Named::name() const { SELF("_ZNK5Named4nameEv"); return 1; }
Circle::Circle(int r) : radius(r) { SELF("_ZN6CircleC2Ei"); }
int Circle::area() const { SELF("_ZNK6Circle4areaEv"); return 3 * radius * radius; }
int Circle::name() const { SELF("_ZNK6Circle4nameEv"); return 2; }

struct Error { int code; };
static int destroyed;
struct Guard {
	int id;
	explicit Guard(int i) : id(i) {}
	OWN ~Guard();
};
Guard::~Guard() { SELF("_ZN5GuardD2Ev"); destroyed += id; }

OWN static int throws(int x)
{
	SELF("_ZL6throwsi");
	Guard g(x);
	if (x % 3 == 0)
		throw Error{x};
	if (x % 5 == 0)
		throw x;
	return x;
}
OWN static int through(int n, int x)
{
	SELF("_ZL7throughii");
	Guard g(1);
	return (n == 0 ? throws(x) : through(n - 1, x)) + g.id;
}
OWN static int rethrows(int x)
{
	SELF("_ZL8rethrowsi");
	try {
		return through(2, x);
	} catch (const Error &e) {
		if (e.code % 2)
			throw;
		return -e.code;
	}
}
OWN static int catches(int x) noexcept
{
	SELF("_ZL7catchesi");
	try {
		return rethrows(x);
	} catch (const Error &e) {
		return 100 + e.code;
	} catch (...) {
		return -1;
	}
}

TALLY(times_0, "_Z5timesILi0EEii");
TALLY(times_1, "_Z5timesILi1EEii");
TALLY(times_2, "_Z5timesILi2EEii");
template <int N> OWN int times(int x)
{
	ENTER_AS(N == 2 ? times_2 : times_1);
	return N * x + times<N - 1>(x);
}
template <> OWN int times<0>(int x)
{
	ENTER_AS(times_0);
	return x;
}

extern "C" OWN int plain(int x)
{
	ENTER;
	return x + 1;
}
namespace inner {
OWN int function(int x)
{
	SELF("_ZN5inner8functionEi");
	return plain(x) * 2;
}
}

struct Static {
	int value;
	OWN explicit Static(int v);
	OWN ~Static();
};
Static::Static(int v) : value(v) { SELF("_ZN6StaticC2Ei"); }
Static::~Static() { SELF("_ZN6StaticD2Ev"); }
static Static before(3);
OWN static int once(int x)
{
	SELF("_ZL4oncei");
	static Static s(x);
	return s.value;
}
static thread_local Static local(4);

int main()
{
	int sum = 0;
	for (int i = 1; i <= 30; i++) {
		sum += catches(i) + inner::function(i) + times<2>(i) + once(i);
		Shape *s = i % 2 ? static_cast<Shape *>(new Square(i)) : new Circle(i);
		sum += s->area();
		if (Named *n = dynamic_cast<Named *>(s))
			sum += n->name();
		delete s;
	}
	Named named;
	Named *volatile pointer = &named;
	sum += pointer->name() + before.value + local.value;
	printf("%d %d\n", sum, destroyed);
	return 9;
}
