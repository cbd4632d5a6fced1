/* What else the twin's Go runtime asks libc for, without libc: signals, memory,
 * attributes and variables of threads (runtime/cgo). A program, or a library that
 * it preloads, may define these names itself; what it defines would run in the
 * twin before the program's constructors have run. A debugger may have a
 * breakpoint in libc's. The link renames the calls, as those of threads.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "base/raw.h"

/* Go's heap grows in its place by 4 MB, and most of that is used at once: with large pages
 * that is two faults, not a thousand. A small program's planner needs two of them, and
 * takes no more memory than it writes to. */
static int is_more_heap(size_t size, int protection, int flags)
{
	enum { GROWTH = 4 << 20, FIRST = 2 };
	static int grown;
	return (flags & MAP_FIXED) && protection == (PROT_READ | PROT_WRITE) && size >= GROWTH && __atomic_fetch_add(&grown, 1, __ATOMIC_RELAXED) >= FIRST;
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) HIDDEN;
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
	long got = raw(SYS_mmap, at, size, protection, flags, file, offset);
	if (!failed(got)) {
		if (is_more_heap(size, protection, flags))
			raw(SYS_madvise, got, size, MADV_HUGEPAGE);
		return (void *)got;
	}
	errno = (int)-got;
	return MAP_FAILED;
}

int __wrap_munmap(void *at, size_t size) HIDDEN;
int __wrap_munmap(void *at, size_t size) { return raw(SYS_munmap, at, size, 0, 0, 0, 0) ? -1 : 0; }

/* ---- signals: the kernel's sets have 64 bits, libc's more -------------- */

int __wrap_sigemptyset(sigset_t *set) HIDDEN;
int __wrap_sigemptyset(sigset_t *set) { return *(uint64_t *)set = 0; }

int __wrap_sigfillset(sigset_t *set) HIDDEN;
int __wrap_sigfillset(sigset_t *set)
{
	*(uint64_t *)set = ~0ULL;
	return 0;
}

int __wrap_sigaddset(sigset_t *set, int signal) HIDDEN;
int __wrap_sigaddset(sigset_t *set, int signal)
{
	*(uint64_t *)set |= 1ULL << (signal - 1);
	return 0;
}

int __wrap_sigismember(const sigset_t *set, int signal) HIDDEN;
int __wrap_sigismember(const sigset_t *set, int signal) { return *(const uint64_t *)set >> (signal - 1) & 1; }

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old) HIDDEN;
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return (int)-raw(SYS_rt_sigprocmask, how, set, old, 8, 0, 0);
}

void dp_twin_restorer(void) HIDDEN;
__asm__(".text\n"
	".hidden dp_twin_restorer\n"
	".globl dp_twin_restorer\n"
	".type dp_twin_restorer, @function\n"
	"dp_twin_restorer:\n"
	"	mov $15, %eax\n" /* rt_sigreturn */
	"	syscall\n"
	".size dp_twin_restorer, . - dp_twin_restorer\n");

/* An action as the kernel has it. */
struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	uint64_t flags;
	void (*restorer)(void);
	uint64_t mask;
};

int __wrap_sigaction(int signal, const struct sigaction *action, struct sigaction *old) HIDDEN;
int __wrap_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	enum { SA_RESTORER_BIT = 0x04000000 };
	struct kernel_action to = {0}, was = {0};
	if (action)
		to = (struct kernel_action){action->sa_sigaction, (uint32_t)action->sa_flags | SA_RESTORER_BIT, dp_twin_restorer,
			*(const uint64_t *)&action->sa_mask};
	long ret = raw(SYS_rt_sigaction, signal, action ? &to : 0, &was, 8, 0, 0);
	if (ret) {
		errno = (int)-ret;
		return -1;
	}
	if (old) {
		old->sa_sigaction = was.handler;
		old->sa_flags = (int)(was.flags & ~(uint64_t)SA_RESTORER_BIT);
		*(uint64_t *)&old->sa_mask = was.mask;
	}
	return 0;
}

/* ---- threads: their attributes are the bounds of a stack, no more ------ */

struct attributes {
	void *stack;
	size_t size;
};

int __wrap_pthread_attr_init(pthread_attr_t *attr) HIDDEN;
int __wrap_pthread_attr_init(pthread_attr_t *attr)
{
	*(struct attributes *)attr = (struct attributes){0};
	return 0;
}

int __wrap_pthread_attr_destroy(pthread_attr_t *attr) HIDDEN;
int __wrap_pthread_attr_destroy(pthread_attr_t *attr)
{
	(void)attr;
	return 0;
}

int __wrap_pthread_attr_setdetachstate(pthread_attr_t *attr, int state) HIDDEN;
int __wrap_pthread_attr_setdetachstate(pthread_attr_t *attr, int state)
{
	(void)attr, (void)state;
	return 0;
}

int __wrap_pthread_attr_setstack(pthread_attr_t *attr, void *stack, size_t size) HIDDEN;
int __wrap_pthread_attr_setstack(pthread_attr_t *attr, void *stack, size_t size)
{
	*(struct attributes *)attr = (struct attributes){stack, size};
	return 0;
}

int __wrap_pthread_attr_getstack(const pthread_attr_t *attr, void **stack, size_t *size) HIDDEN;
int __wrap_pthread_attr_getstack(const pthread_attr_t *attr, void **stack, size_t *size)
{
	const struct attributes *a = (const struct attributes *)attr;
	*stack = a->stack;
	*size = a->size;
	return 0;
}

pthread_t __wrap_pthread_self(void) HIDDEN;
pthread_t __wrap_pthread_self(void)
{
	pthread_t self;
	__asm__("mov %%fs:16, %0" : "=r"(self)); /* tcbhead_t.self */
	return self;
}

int __wrap_pthread_detach(pthread_t thread) HIDDEN;
int __wrap_pthread_detach(pthread_t thread)
{
	(void)thread; /* it has nothing that anybody would join */
	return 0;
}

/* The runtime's one key has a destructor, for threads that C made: the twin has none. */
int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) HIDDEN;
int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	(void)destructor;
	*key = 0;
	return 0;
}

int __wrap_pthread_setspecific(pthread_key_t key, const void *value) HIDDEN;
int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
	(void)key, (void)value;
	return 0;
}
