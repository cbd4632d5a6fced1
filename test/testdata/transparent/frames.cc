// Frames: exceptions through them, names of them, what runs before and after.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <thread>

extern "C" __attribute__((noinline)) void step(int n)
{
	if (n == 0)
		throw std::runtime_error("at the bottom");
	std::string own = std::to_string(n);
	step(n - 1);
	std::puts(own.c_str());
}

struct Order {
	const char *name;
	explicit Order(const char *n) : name(n) { std::printf("made %s\n", name); }
	~Order() { std::printf("gone %s\n", name); }
};
__attribute__((init_priority(400))) static Order first("first");
static Order second("second");
static thread_local Order each("each thread");

extern "C" __attribute__((noinline)) int trace(int n)
{
	if (n > 0)
		return trace(n - 1) + 1;
	void *at[64];
	int count = backtrace(at, 64);
	for (int i = 0; i < count; i++) {
		Dl_info info;
		if (dladdr(at[i], &info) && info.dli_fname)
			std::printf("frame %s %s+%zx\n", std::strrchr(info.dli_fname, '/'),
				    info.dli_sname ? info.dli_sname : "?",
				    (std::size_t)((char *)at[i] - (char *)info.dli_fbase));
	}
	return count;
}

static void on_signal(int) { trace(2); }

static void on_fault(int) { throw std::logic_error("from a handler"); }
extern "C" __attribute__((noinline)) void fault(volatile int *p)
{
	*p = 1;
	std::puts("not here");
}

static int from_handler()
{
	signal(SIGSEGV, on_fault);
	try {
		fault((volatile int *)16);
	} catch (const std::exception &e) {
		std::printf("caught %s\n", e.what());
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && std::strcmp(argv[1], "fault") == 0)
		return from_handler();
	if (argc > 1)
		throw std::logic_error(argv[1]);
	for (int i = 0; i < 100; i++)
		try {
			step(9);
		} catch (const std::exception &e) {
			if (i == 0)
				std::printf("caught %s\n", e.what());
		}
	std::printf("trace %d\n", trace(5));
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	std::thread([] {
		each.name = "each of another";
		try {
			step(3);
		} catch (...) {
			std::puts("caught in a thread");
		}
	}).join();
	std::printf("main %s\n", each.name);
	std::fflush(stdout);
	return 0;
}
