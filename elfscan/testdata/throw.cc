// Functions with landing pads, of which gcc -O2 moves the cold ones away.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
	virtual ~Shape() {}
	virtual double area() const = 0;
};
struct Square : Shape {
	double side;
	explicit Square(double s) : side(s)
	{
		if (s < 0)
			throw std::invalid_argument("side");
	}
	double area() const override { return side * side; }
};

__attribute__((noinline)) double total(const std::vector<std::string> &in)
{
	double sum = 0;
	for (const auto &s : in) {
		try {
			Square q(std::stod(s));
			sum += q.area();
		} catch (const std::invalid_argument &e) {
			std::string why = "bad: " + s + e.what();
			std::puts(why.c_str());
		}
	}
	return sum;
}

int main(int argc, char **argv)
{
	std::vector<std::string> in(argv, argv + argc);
	return total(in) > 1;
}
