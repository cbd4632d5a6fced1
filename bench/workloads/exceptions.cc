// A C++ program as they are written: a parser and evaluator of expressions, with
// virtual functions, containers, strings, algorithms, and an exception for each
// of the expressions that are wrong, some 2 % (exceptions SIZE: SIZE * 100
// expressions).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

struct Scope {
	std::map<std::string, long> variables;
	std::unordered_map<std::string, long> used;
	long get(const std::string &name) {
		auto it = variables.find(name);
		if (it == variables.end())
			throw std::out_of_range("no variable " + name);
		used[name]++;
		return it->second;
	}
};

struct Node {
	virtual ~Node() = default;
	virtual long value(Scope &s) const = 0;
	virtual int depth() const { return 1; }
};

struct Number : Node {
	long n;
	explicit Number(long n) : n(n) {}
	long value(Scope &) const override { return n; }
};

struct Variable : Node {
	std::string name;
	explicit Variable(std::string name) : name(std::move(name)) {}
	long value(Scope &s) const override { return s.get(name); }
};

struct Binary : Node {
	char op;
	std::unique_ptr<Node> a, b;
	Binary(char op, std::unique_ptr<Node> a, std::unique_ptr<Node> b) : op(op), a(std::move(a)), b(std::move(b)) {}
	int depth() const override { return 1 + std::max(a->depth(), b->depth()); }
	long value(Scope &s) const override {
		long x = a->value(s), y = b->value(s);
		switch (op) {
		case '+': return long((unsigned long)x + (unsigned long)y);
		case '-': return long((unsigned long)x - (unsigned long)y);
		case '*': return long((unsigned long)x * (unsigned long)y & 0xffffff);
		}
		if (y == 0)
			throw std::domain_error("division by zero");
		return x / y;
	}
};

class Parser {
	const std::string &text;
	size_t at = 0;

	char peek() {
		while (at < text.size() && text[at] == ' ')
			at++;
		return at < text.size() ? text[at] : '\0';
	}
	std::unique_ptr<Node> factor() {
		char c = peek();
		if (c == '(') {
			at++;
			auto inside = sum();
			if (peek() != ')')
				throw std::invalid_argument("no ) in " + text);
			at++;
			return inside;
		}
		size_t from = at;
		if (c >= '0' && c <= '9') {
			while (at < text.size() && text[at] >= '0' && text[at] <= '9')
				at++;
			return std::make_unique<Number>(std::stol(text.substr(from, at - from)));
		}
		while (at < text.size() && text[at] >= 'a' && text[at] <= 'z')
			at++;
		if (at == from)
			throw std::invalid_argument("unexpected character");
		return std::make_unique<Variable>(text.substr(from, at - from));
	}
	std::unique_ptr<Node> product() {
		auto left = factor();
		for (char c = peek(); c == '*' || c == '/'; c = peek()) {
			at++;
			left = std::make_unique<Binary>(c, std::move(left), factor());
		}
		return left;
	}

public:
	explicit Parser(const std::string &text) : text(text) {}
	std::unique_ptr<Node> sum() {
		auto left = product();
		for (char c = peek(); c == '+' || c == '-'; c = peek()) {
			at++;
			left = std::make_unique<Binary>(c, std::move(left), product());
		}
		return left;
	}
};

unsigned seed = 1;
unsigned random_number(unsigned below) {
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % below;
}

std::string expression(int depth) {
	static const char *const names[] = {"alpha", "beta", "gamma", "delta"};
	if (depth == 0) {
		if (random_number(2))
			return std::to_string(random_number(1000) + 1);
		return names[random_number(4)];
	}
	std::string s = "(" + expression(depth - 1) + " " + "+-*/+-*"[random_number(7)] + " " + expression(depth - 1) + ")";
	if (random_number(1600) == 0)
		s.back() = ' '; // wrong
	return s;
}

} // namespace

int main(int argc, char **argv) {
	long n = argc > 1 ? std::atol(argv[1]) : 1, sum = 0, wrong = 0;
	Scope scope;
	scope.variables = {{"alpha", 3}, {"beta", 17}, {"gamma", 260}, {"delta", 4096}};
	std::vector<std::string> texts;
	for (int i = 0; i < 100; i++)
		texts.push_back(expression(5));
	for (long i = 0; i < n; i++) {
		std::vector<std::pair<long, std::string>> results;
		for (const std::string &text : texts) {
			try {
				auto node = Parser(text).sum();
				results.emplace_back(node->value(scope), std::to_string(node->depth()));
			} catch (const std::logic_error &e) {
				wrong += e.what()[0] != 0;
			}
		}
		std::sort(results.begin(), results.end());
		for (auto &r : results)
			sum = (sum * 31 + r.first + long(r.second.size())) & 0xffffffff;
	}
	std::printf("%ld %ld %zu\n", sum, wrong, scope.used.size());
}
