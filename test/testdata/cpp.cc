// Calls of every kind that C++ has, each a fixed number of times. Prints
// results, so that a run with the library can be compared with one without.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define OWN __attribute__((noinline))

extern "C" {
int c_call(int (*f)(void *), void *arg);
int c_deep(int n, int (*f)(void *), void *arg);
int c_sort(int *v, int n, int (*compare)(const void *, const void *));
}

static void show(const char *what, long value) { std::printf("%s %ld\n", what, value); }

// ---- virtual calls: single, multiple and virtual inheritance ----

struct Shape {
	virtual ~Shape() {}
	virtual int area() const = 0;
	virtual Shape *self() { return this; }
	int twice() const { return 2 * area(); }
};
struct Named {
	virtual ~Named() {}
	virtual int name() const { return 1; }
};
struct Square : Shape {
	int side;
	explicit Square(int s) : side(s) {}
	int area() const override { return side * side; }
	Square *self() override { return this; }
};
struct Circle final : Shape, Named {
	int radius;
	explicit Circle(int r) : radius(r) {}
	~Circle() override { radius = 0; }
	int area() const override { return 3 * radius * radius; }
	int name() const override { return 20 + radius; } // also through a thunk
	Circle *self() override { return this; }
};
struct Base { virtual int v(int x) { return x; } virtual ~Base() = default; int pad = 1; };
struct Left : virtual Base { int v(int x) override { return x + 1; } };
struct Right : virtual Base { int w(int x) { return v(x) + pad; } };
struct Join : Left, Right { int v(int x) override { return Left::v(x) * 10; } };

OWN static int shapes(int n)
{
	std::vector<std::unique_ptr<Shape>> all;
	for (int i = 0; i < n; i++)
		if (i % 3)
			all.push_back(std::make_unique<Square>(i));
		else
			all.push_back(std::make_unique<Circle>(i));
	int sum = 0;
	for (auto &s : all) {
		sum += s->self()->area() + s->twice();
		if (auto *named = dynamic_cast<Named *>(s.get()))
			sum += named->name();
	}
	Join j;
	Base *b = &j;
	int (Shape::*member)() const = &Shape::area;
	return sum + b->v(3) + j.w(4) + (all[1].get()->*member)();
}

// ---- templates ----

template <int N> OWN int times(int x) { return N * x + times<N - 1>(x); }
template <> OWN int times<0>(int x) { return x; }
template <typename T> OWN T sum_of(T x) { return x; }
template <typename T, typename... More> OWN T sum_of(T x, More... more) { return x + static_cast<T>(sum_of(more...)); }
template <typename Self> struct Curious {
	int go() { return static_cast<Self *>(this)->step() + 1; }
};
struct Curiouser : Curious<Curiouser> {
	OWN int step() { return 41; }
};

// ---- exceptions ----

static int destroyed;
struct Guard {
	int id;
	explicit Guard(int i) : id(i) {}
	OWN ~Guard() { destroyed += id; }
};
struct Own : std::runtime_error {
	int code;
	explicit Own(int c) : std::runtime_error("own"), code(c) {}
};

OWN static int thrower(int x)
{
	Guard g(x);
	if (x % 2)
		throw Own(x);
	if (x % 5 == 0)
		throw x;
	return x;
}
OWN static int through(int n, int x)
{
	Guard g(1);
	return n == 0 ? thrower(x) : through(n - 1, x) + g.id;
}
OWN static int rethrows(int x)
{
	try {
		return through(3, x);
	} catch (const Own &e) {
		Guard g(100);
		if (e.code % 3 == 0)
			throw;
		return -e.code;
	}
}
OWN static int catches(int x) noexcept
{
	try {
		return rethrows(x);
	} catch (const std::exception &) {
		return 1;
	} catch (int i) {
		return 1000 + i;
	} catch (...) {
		return -1;
	}
}
struct Half {
	Guard first{7};
	OWN explicit Half(bool fail) try : second(fail ? thrower(1) : 2) {
	} catch (const Own &) {
		destroyed += 1000;
	}
	Guard second;
};
OWN static int constructs(bool fail)
{
	try {
		Half h(fail);
		return 1;
	} catch (const Own &e) {
		return 2;
	}
}
OWN static int wraps(int n)
{
	try {
		if (n == 0)
			throw Own(4);
		return wraps(n - 1);
	} catch (...) {
		std::throw_with_nested(std::logic_error(std::string(static_cast<size_t>(n), 'x')));
	}
}
OWN static int unwrap(const std::exception &e)
{
	try {
		std::rethrow_if_nested(e);
	} catch (const std::exception &inner) {
		return 1 + unwrap(inner);
	}
	return 0;
}

OWN static int c_callback(void *arg) { return thrower(*static_cast<int *>(arg)); }
OWN static int compare(const void *a, const void *b) { return *static_cast<const int *>(a) - *static_cast<const int *>(b); }
OWN static int compare_throws(const void *a, const void *b)
{
	if (*static_cast<const int *>(a) == 3)
		throw Own(3);
	return compare(a, b);
}
OWN static int c_frames(int x)
{
	int v[] = {5, 9, 1, 8, 3, 7, 2};
	int sum = c_sort(v, 3, compare);
	try {
		sum += c_call(c_callback, &x) + c_deep(20, c_callback, &x);
	} catch (const Own &) {
		sum += 50;
	} catch (int) {
		sum += 60;
	}
	try {
		sum += c_sort(v, 7, compare_throws);
	} catch (const Own &e) {
		sum += 70 + e.code; // through libc's qsort
	}
	return sum;
}

static void exceptions()
{
	int sum = 0;
	for (int i = 1; i <= 30; i++)
		sum += catches(i);
	show("catches", sum);
	show("constructs", constructs(false) + constructs(true));
	try {
		wraps(5);
	} catch (const std::exception &e) {
		show("nested", unwrap(e));
	}
	show("c frames", c_frames(2) + c_frames(3) + c_frames(10));
	show("destroyed", destroyed);
}

// ---- function objects ----

OWN static int repeat(const std::function<int(int)> &f, int n)
{
	int x = 0;
	for (int i = 0; i < n; i++)
		x = f(x + i) % 10007;
	return x;
}
struct Adder {
	int by;
	OWN int operator()(int x) const { return x + by; }
};
OWN static int free_function(int x) { return x * 3; }

static int functions()
{
	int calls = 0;
	auto lambda = [&calls](int x) __attribute__((noinline)) { calls++; return x + 2; };
	auto generic = [](auto x) { return static_cast<int>(x * 2); };
	int plain = (+[](int x) { return x - 1; })(5);
	std::function<int(int)> recursive = [&](int n) { return n <= 0 ? 0 : 1 + recursive(n - 1); };
	return repeat(lambda, 50) + repeat(Adder{4}, 20) + repeat(free_function, 30) + generic(3) + generic(2.5) + plain +
	       recursive(12) + repeat(std::bind(free_function, std::placeholders::_1), 5) + calls;
}

static int algorithms()
{
	std::vector<int> v(1000);
	unsigned x = 12345;
	for (int &e : v)
		e = static_cast<int>((x = x * 1103515245u + 12345u) >> 16 & 0x7fff);
	std::sort(v.begin(), v.end(), [](int a, int b) __attribute__((noinline)) { return a < b; });
	std::stable_sort(v.begin(), v.end(), std::greater<int>());
	std::map<std::string, int> map;
	for (int i = 0; i < 100; i++)
		map[std::to_string(v[static_cast<size_t>(i) * 7])] += i;
	int sum = std::accumulate(v.begin(), v.end(), 0, [](int a, int b) { return (a + b) % 65521; });
	return sum + static_cast<int>(map.size()) + map.begin()->second;
}

// ---- objects that live before, after and beside main ----

struct Static {
	const char *name;
	OWN explicit Static(const char *n) : name(n) { std::printf("construct %s\n", n); }
	OWN ~Static() { std::printf("destroy %s\n", name); }
};
static Static before("static");
static thread_local Static local("thread");
OWN static int once(int x)
{
	static Static s("once");
	static const int first = free_function(x);
	return first;
}

static int threads()
{
	int total = 0;
	std::exception_ptr caught;
	for (int i = 0; i < 3; i++) {
		int result = 0;
		std::thread t([&result, &caught, i] {
			result = local.name[0] + times<3>(i);
			try {
				thrower(i);
			} catch (...) {
				caught = std::current_exception();
			}
		});
		t.join();
		total += result;
	}
	try {
		std::rethrow_exception(caught);
	} catch (const int &i) {
		total += i;
	} catch (const Own &e) {
		total += e.code * 1000;
	}
	return total;
}

int main()
{
	show("shapes", shapes(40));
	show("templates", times<6>(3) + sum_of(1, 2L, 3.5, 4.0f) + Curiouser().go());
	exceptions();
	show("functions", functions());
	show("algorithms", algorithms());
	show("once", once(3) + once(4) + once(5));
	show("threads", threads());
	return 4;
}
