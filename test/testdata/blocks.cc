// Functions of many shapes, in several threads, and a child: how often the block of spin's
// loop runs is said, and the program kills itself.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static jmp_buf back;

extern "C" __attribute__((noipa)) unsigned spin(unsigned n)
{
	unsigned x = n;
	if (n)
		asm volatile("1: lea 1(%0,%0,2), %0; dec %1; jnz 1b" : "+r"(x), "+r"(n) : : "cc");
	return x;
}

__attribute__((noinline)) static unsigned by_table(unsigned n)
{
	switch (n % 7) {
	case 0: return spin(1);
	case 1: return n * 3;
	case 2: return n ^ 5;
	case 3: return n - 9;
	case 4: return by_table(n / 7) + 1;
	case 5: return n << 2;
	default: return 11;
	}
}

__attribute__((noinline)) static unsigned throws(unsigned n)
{
	std::string s(n % 40, 'x');
	if (n % 3 == 0)
		throw std::runtime_error(s);
	return s.size() + spin(2);
}

__attribute__((noinline)) static unsigned catches(unsigned n)
{
	try {
		return throws(n);
	} catch (std::exception &e) {
		return spin(3) + std::string(e.what()).size();
	}
}

__attribute__((noinline)) static void jumps(unsigned n)
{
	if (n == 0)
		longjmp(back, 1);
	jumps(n - 1);
	asm volatile("" ::: "memory");
}

static void handle(int) { spin(0); }

static unsigned work(unsigned rounds)
{
	unsigned sum = 0;
	for (unsigned i = 0; i < rounds; i++)
		sum += by_table(i) + catches(i) + spin(4);
	return sum;
}

int main(int argc, char **)
{
	signal(SIGALRM, handle);
	unsigned sum = 0;
	for (volatile int i = 0; i < 50; i = i + 1)
		if (setjmp(back) == 0)
			jumps(9);
	std::vector<std::thread> threads;
	std::vector<unsigned> sums(4);
	for (int i = 0; i < 4; i++)
		threads.emplace_back([&sums, i] { sums[i] = work(20000); });
	ualarm(1000, 1000);
	for (auto &t : threads)
		t.join();
	ualarm(0, 0);
	for (unsigned s : sums)
		sum += s;
	fflush(stdout);
	if (fork() == 0)
		_exit(work(1000) & 1);
	int status;
	wait(&status);
	printf("%u %d\n", sum, status);
	fflush(stdout);
	if (argc > 1)
		raise(SIGKILL);
	return 0;
}
