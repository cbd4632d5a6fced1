/* Threads and processes that end without a stack, as who makes threads by himself may have
 * it: Go's exitThread, musl's __unmapself.
 *
 *   given    the thread says that its stack is free, and others write to it
 *   gone     the thread unmaps its stack
 *   process  rsp leads nowhere
 * Each thread calls work 100 times, one after the other.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { SIZE = 1 << 14, THREADS = 50 };

/* A thread's: 1 when the stack is free, 2 when it may end. */
struct ending {
	int step, tid;
};

static long calls;

OWN void work(void)
{
	__asm__ volatile("" : : : "memory");
	calls++;
}

__attribute__((used)) static void body(void)
{
	for (int i = 0; i < 100; i++)
		work();
}

#define FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID)

/* The thread has what it needs in rbx, r12, r13. */
long made(int flags, void *stack, int *tid, struct ending *e, void *at, long size);
__asm__(".text\n"
	".type made, @function\n"
	"made: push %rbx\n push %r12\n push %r13\n"
	" mov %rcx, %rbx\n mov %r8, %r12\n mov %r9, %r13\n"
	" mov %rdx, %r10\n"
	" xor %r8d, %r8d\n"
	" mov $56, %eax\n syscall\n" /* clone */
	" test %eax, %eax\n jz 1f\n"
	" pop %r13\n pop %r12\n pop %rbx\n ret\n"
	"1: call body\n"
	" test %r12, %r12\n jz 2f\n"
	" mov %r12, %rdi\n mov %r13, %rsi\n mov $11, %eax\n syscall\n" /* munmap */
	" jmp 4f\n"
	"2: movl $1, (%rbx)\n"
	"3: pause\n cmpl $2, (%rbx)\n jne 3b\n"
	"4: mov $7, %edi\n mov $60, %eax\n syscall\n hlt\n" /* exit */
	".size made, . - made\n");

static void await(int *word, int until)
{
	struct timespec ms = {0, 1000000};
	for (int now; (now = __atomic_load_n(word, __ATOMIC_SEQ_CST)) != until;)
		syscall(SYS_futex, word, FUTEX_WAIT, now, &ms, 0, 0);
}

static void thread(int unmaps)
{
	struct ending e = {0, -1};
	char *stack = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long tid = made(FLAGS, stack + SIZE, &e.tid, &e, unmaps ? stack : 0, SIZE);
	if (tid < 0)
		fail("clone", tid, 0);
	if (!unmaps) {
		await(&e.step, 1);
		memset(stack, 0x5a, SIZE);
		__atomic_store_n(&e.step, 2, __ATOMIC_SEQ_CST);
	}
	await(&e.tid, 0);
	for (int i = 0; !unmaps && i < SIZE; i++)
		if (stack[i] != 0x5a) {
			fail("written at", i, -1);
			break;
		}
}

static void process(void)
{
	int status = 0;
	if (!fork())
		__asm__ volatile("mov $8, %%rsp\n mov $9, %%edi\n mov $231, %%eax\n syscall" : : : "memory"); /* exit_group */
	wait(&status);
	expect("status", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status), 9);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	for (int i = 0; i < THREADS; i++)
		if (*how == 'p')
			process();
		else
			thread(!strcmp(how, "gone"));
	expect("work", calls, *how == 'p' ? 0 : 100 * THREADS);
	return wrong;
}
