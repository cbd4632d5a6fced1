/* Threads by every way of birth, each at work beside the one that made it. The
 * argument says how many of each. */
#include <aio.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>
#include <linux/sched.h>

#include <future>
#include <thread>

#include "tally.h"

enum { WORK = 4000 };

static int amount;
static int ended; /* threads that nobody joins */

extern "C" {

OWN void pin(int n)
{
	ENTER;
	cpu_set_t one;
	static cpu_set_t all;
	if (CPU_COUNT(&all) == 0)
		sched_getaffinity(0, sizeof all, &all);
	n %= CPU_COUNT(&all);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && n-- == 0) {
			CPU_ZERO(&one);
			CPU_SET(i, &one);
			syscall(SYS_sched_setaffinity, 0, sizeof one, &one);
			return;
		}
}

OWN int step(int x)
{
	ENTER;
	return x * 7 + 1;
}

/* No libc: threads made by hand have no memory of their own for it. */
OWN int work(int x)
{
	ENTER;
	for (int i = 0; i < WORK; i++)
		x = step(x);
	return x;
}

OWN void end(void)
{
	ENTER;
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELEASE);
}

/* Works until n threads have ended. */
OWN void await(int n)
{
	ENTER;
	while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < n) {
		work(n);
		sched_yield();
	}
}

OWN void *run_pthread(void *arg)
{
	ENTER;
	pin((int)(long)arg);
	work((int)(long)arg);
	return 0;
}

OWN int run_thrd(void *arg)
{
	ENTER;
	pin(1);
	return work((int)(long)arg) & 1;
}

OWN void run_notified(union sigval value)
{
	ENTER;
	pin(1 + value.sival_int);
	work(value.sival_int);
	end();
}

OWN void run_by_hand(long arg)
{
	ENTER;
	pin((int)arg);
	work((int)arg);
}

/* ---- by libraries ---- */

OWN void pthreads(void)
{
	ENTER;
	for (int i = 0; i < amount; i++) {
		pthread_t t[3];
		for (long k = 0; k < 3; k++)
			pthread_create(&t[k], 0, run_pthread, (void *)k);
		work(i);
		for (int k = 0; k < 3; k++)
			pthread_join(t[k], 0);
	}
}

OWN void thrds(void)
{
	ENTER;
	for (int i = 0; i < amount; i++) {
		thrd_t t;
		int result;
		thrd_create(&t, run_thrd, (void *)(long)i);
		work(i);
		thrd_join(t, &result);
	}
}

OWN void run_std(int x)
{
	ENTER;
	pin(1);
	work(x);
}

OWN void std_threads(void)
{
	ENTER;
	for (int i = 0; i < amount; i++) {
		std::thread t(run_std, i);
		std::future<int> f = std::async(std::launch::async, work, i);
		work(i);
		t.join();
		f.get();
	}
}

/* How libc notifies: by a thread. */
OWN struct sigevent notice(int i)
{
	ENTER;
	struct sigevent event;
	memset(&event, 0, sizeof event);
	event.sigev_notify = SIGEV_THREAD;
	event.sigev_notify_function = run_notified;
	event.sigev_value.sival_int = i;
	return event;
}

OWN void timers(void)
{
	ENTER;
	for (int i = 0; i < amount; i++) {
		timer_t timer;
		struct sigevent event = notice(i);
		struct itimerspec once = {{0, 0}, {0, 100000}};
		ended = 0;
		timer_create(CLOCK_MONOTONIC, &event, &timer);
		timer_settime(timer, 0, &once, 0);
		await(1);
		timer_delete(timer);
	}
}

OWN void aios(void)
{
	ENTER;
	static char data[16];
	FILE *f = tmpfile();
	for (int i = 0; i < amount; i++) {
		enum { AT_ONCE = 4 };
		struct aiocb cb[AT_ONCE];
		ended = 0;
		for (int k = 0; k < AT_ONCE; k++) {
			memset(&cb[k], 0, sizeof cb[k]);
			cb[k].aio_fildes = fileno(f);
			cb[k].aio_buf = data;
			cb[k].aio_nbytes = sizeof data;
			cb[k].aio_sigevent = notice(k);
			if (aio_write(&cb[k]) != 0)
				abort();
		}
		await(AT_ONCE);
		for (int k = 0; k < AT_ONCE; k++)
			if (aio_return(&cb[k]) != sizeof data)
				abort();
	}
	fclose(f);
}

OWN void addresses(void)
{
	ENTER;
	for (int i = 0; i < amount; i++) {
		struct gaicb one, *list[1] = {&one};
		struct addrinfo hints;
		struct sigevent event = notice(i);
		memset(&hints, 0, sizeof hints);
		hints.ai_flags = AI_NUMERICHOST;
		memset(&one, 0, sizeof one);
		one.ar_name = "127.0.0.1";
		one.ar_request = &hints;
		ended = 0;
		if (getaddrinfo_a(GAI_NOWAIT, list, 1, &event) != 0)
			abort();
		await(1);
		if (gai_error(&one) != 0)
			abort();
		freeaddrinfo(one.ar_result);
	}
}

/* ---- by hand ---- */

enum { FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
	       CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID };

/* long clone_by_hand(flags, stack, parent_tid, child_tid), and with the number
 * further from the system call. begin_by_hand is where a thread begins that
 * libc's syscall() made: its stack holds the address, the argument and the
 * function. */
long clone_by_hand(long flags, void *stack, volatile int *parent_tid, volatile int *child_tid);
long clone_spread(long flags, void *stack, volatile int *parent_tid, volatile int *child_tid);
void begin_by_hand(void);
__asm__(".text\n"
	".globl clone_by_hand\n.type clone_by_hand, @function\n"
	"clone_by_hand:\n"
	"	mov %rcx, %r10\n	xor %r8d, %r8d\n"
	"	mov $56, %eax\n	syscall\n"
	"	test %rax, %rax\n	jz 1f\n	ret\n"
	"1:	pop %rax\n	jmp *%rax\n"
	".size clone_by_hand, . - clone_by_hand\n"
	".globl clone_spread\n.type clone_spread, @function\n"
	"clone_spread:\n"
	"	mov $56, %eax\n	mov %rcx, %r10\n	xor %r8d, %r8d\n"
	"	syscall\n"
	"	test %rax, %rax\n	jz 1f\n	ret\n"
	"1:	pop %rax\n	jmp *%rax\n"
	".size clone_spread, . - clone_spread\n"
	".globl begin_by_hand\n.type begin_by_hand, @function\n"
	"begin_by_hand:\n"
	"	xor %ebp, %ebp\n	pop %rdi\n	pop %rax\n	call *%rax\n"
	"	xor %edi, %edi\n	mov $60, %eax\n	syscall\n"
	".size begin_by_hand, . - begin_by_hand\n");

OWN long by_clone(int how, void *stack, volatile int *tid)
{
	ENTER;
	struct clone_args args;
	switch (how) {
	case 0:
		return clone_by_hand(FLAGS, stack, tid, tid);
	case 1:
		return clone_spread(FLAGS, stack, tid, tid);
	case 2:
		return syscall(SYS_clone, FLAGS, stack, tid, tid, 0);
	}
	memset(&args, 0, sizeof args);
	args.flags = FLAGS;
	args.parent_tid = args.child_tid = (long)tid;
	args.stack = (long)stack - 4096;
	args.stack_size = 4096;
	return syscall(SYS_clone3, &args, sizeof args);
}

OWN void by_hand(int how)
{
	ENTER;
	enum { SIZE = 1 << 16, AT_ONCE = 2 };
	char *memory = (char *)malloc(AT_ONCE * SIZE);
	for (int i = 0; i < amount; i++) {
		volatile int tid[AT_ONCE];
		for (int k = 0; k < AT_ONCE; k++) {
			void **top = (void **)(memory + (k + 1) * SIZE) - 4;
			top[0] = (void *)begin_by_hand;
			top[1] = (void *)(long)k;
			top[2] = (void *)run_by_hand;
			if (by_clone(how, top, &tid[k]) < 0)
				abort();
		}
		work(i);
		for (int k = 0; k < AT_ONCE; k++)
			for (int now; (now = tid[k]) != 0;)
				syscall(SYS_futex, &tid[k], FUTEX_WAIT, now, 0, 0, 0);
	}
	free(memory);
}

} /* extern "C" */

int main(int argc, char **argv)
{
	amount = argc > 2 ? atoi(argv[2]) : 0;
	const char *what = argc > 2 ? argv[1] : "";
	pin(0);
	if (!strcmp(what, "pthread_create"))
		pthreads();
	else if (!strcmp(what, "thrd_create"))
		thrds();
	else if (!strcmp(what, "std::thread"))
		std_threads();
	else if (!strcmp(what, "timer_create"))
		timers();
	else if (!strcmp(what, "aio"))
		aios();
	else if (!strcmp(what, "getaddrinfo_a"))
		addresses();
	else if (!strcmp(what, "inline"))
		by_hand(0);
	else if (!strcmp(what, "spread"))
		by_hand(1);
	else if (!strcmp(what, "syscall"))
		by_hand(2);
	else if (!strcmp(what, "syscall-clone3"))
		by_hand(3);
	else
		return 2;
	return 0;
}
