// A program that does the same in each run, and has instructions that read and write memory in
// rare ways.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct shape {
	virtual ~shape() = default;
	virtual double area() const = 0;
};
struct square : shape {
	double side;
	explicit square(double s) : side(s) {}
	double area() const override { return side * side; }
};
struct circle : shape {
	double radius;
	explicit circle(double r) : radius(r) {}
	double area() const override { return 3.0 * radius * radius; }
};

__attribute__((noinline)) static int throws(int n)
{
	if (n % 7 == 0)
		throw std::runtime_error("seven");
	return n;
}

static long words[64] __attribute__((aligned(64)));
static std::atomic<long> shared;

__attribute__((noinline)) static void rare(long n)
{
	unsigned short control;
	long double wide = 1.5L;
	for (long i = 0; i < n; i++) {
		long value = i;
		__asm__ volatile("lock cmpxchg %1, %0\n xchg %1, %0\n xadd %1, %0\n lock xadd %1, %0\n cmpxchg %1, %0" : "+m"(words[0]), "+r"(value) : : "rax", "cc", "memory");
		__asm__ volatile("lock incq %0\n lock orq $1, %0\n lock btsq $3, %0\n btsq $2, %0\n btq $2, %0\n notq %0\n" : "+m"(words[1]) : : "cc");
		__asm__ volatile("lock cmpxchg8b %0" : "+m"(words[2]) : : "rax", "rdx", "rbx", "rcx", "cc");
		__asm__ volatile("lock cmpxchg16b %0" : "+m"(words[4]) : : "rax", "rdx", "rbx", "rcx", "cc", "memory");
		__asm__ volatile("lea -128(%%rsp), %%rsp\n pushq %0\n popq %0\n pushfq\n popfq\n push $5\n pop %%rax\n lea 128(%%rsp), %%rsp" : "+m"(words[6]) : : "rax", "cc", "memory");
		long *from = words + 8, *to = words + 16;
		__asm__ volatile("movsq\n movsb\n stosl\n scasw" : "+S"(from), "+D"(to) : : "rax", "cc", "memory");
		__asm__ volatile("fldt %0\n fstpt %0\n flds %1\n fstps %1\n fildll %1\n fistpll %1\n fnstcw %2\n fldcw %2\n fnstsw %2" : "+m"(wide), "+m"(words[20]), "=m"(control));
		__asm__ volatile("shldq $3, %1, %0\n shrdq $3, %1, %0\n sarq $2, %0\n rolq %0" : "+m"(words[21]) : "r"(i) : "cc");
		__asm__ volatile("cmovz %0, %%rax\n movq %%rax, %0\n bsfq %0, %%rax\n imulq $3, %0, %%rax\n mulq %0\n sete %0\n" : "+m"(words[22]) : : "rax", "rdx", "cc");
		__asm__ volatile("movups %0, %%xmm0\n movaps %0, %%xmm0\n movlps %0, %%xmm1\n movhps %0, %%xmm1\n cvtps2pd %0, %%xmm2\n pinsrw $1, %0, %%xmm3\n pmovzxbq %0, %%xmm4\n movss %%xmm0, %0\n movhps %%xmm1, %0\n addsd %0, %%xmm0\n pextrw $2, %%xmm3, %0\n movd %%xmm0, %0\n movntdq %%xmm0, %0" : "+m"(words[24]) : : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4");
		__asm__ volatile("ldmxcsr %0" : : "m"(*(const unsigned *)"\x80\x1f\0"));
		__asm__ volatile("stmxcsr %0" : "=m"(words[28]));
		__asm__ volatile("prefetcht0 %0\n nopl %0\n lea %0, %%rax" : "+m"(words[29]) : : "rax");
		shared += i;
	}
	std::printf("%u\n", control);
}

int main()
{
	std::map<std::string, int> names;
	std::vector<std::unique_ptr<shape>> shapes;
	std::vector<int> numbers;
	int caught = 0;
	unsigned seed = 1;
	for (int i = 0; i < 2000; i++) {
		seed = seed * 1103515245 + 12345;
		names["n" + std::to_string(seed >> 16 & 255)] += i;
		numbers.push_back(static_cast<int>(seed >> 8));
		if (i % 2)
			shapes.push_back(std::make_unique<square>(i));
		else
			shapes.push_back(std::make_unique<circle>(i));
		try {
			caught += throws(i % 100 + 1);
		} catch (const std::exception &) {
			caught--;
		}
	}
	std::sort(numbers.begin(), numbers.end());
	double area = 0;
	for (const auto &s : shapes)
		area += s->area();
	rare(100);
	std::printf("%zu %d %d %g %ld\n", names.size(), caught, numbers[1000], area, shared.load());
	return 0;
}
