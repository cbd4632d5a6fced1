/* Threads and memory of the twin's Go runtime, without libc.
 *
 * The twin is a copy of one thread of a process that may have had more, made
 * wherever that thread was, in dlopen for instance. Locks of libc and of the
 * dynamic linker may be taken in the copy, for ever. So what the Go runtime
 * asks libc for where locks are (runtime/cgo: pthread_create, malloc, free, the
 * bounds and size of stacks) is answered here; the link renames these calls
 * (ld's --wrap), in this library only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "base/layout.h"
#include "base/pages.h"
#include "base/raw.h"
#include "session.h"

enum {
	STACK_SIZE = 1 << 20,
	TCB_SIZE = 4096,      /* more than libc's struct pthread */
	CHUNK = 256 << 10,
};

static uint64_t tls_size; /* bytes of thread-local variables below the thread pointer */

void dp_note_tls(uint64_t size) { tls_size = size; }

static void *map(uint64_t size)
{
	long at = raw(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return failed(at) ? 0 : (void *)at;
}

void *__wrap_malloc(size_t n) HIDDEN;
void __wrap_free(void *p) HIDDEN;

/* The runtime asks for some dozens of bytes at a time, and the twin's life is
 * short: nothing is given back. */
void *__wrap_malloc(size_t n)
{
	static uint8_t *chunk;
	static uint64_t used = CHUNK; /* bytes */
	n = (n + 15) & ~(size_t)15;
	if (n > CHUNK / 4)
		return map(n);
	uint8_t *base = __atomic_load_n(&chunk, __ATOMIC_ACQUIRE);
	if (!base) {
		uint8_t *none = 0, *fresh = map(CHUNK);
		if (!fresh)
			return 0;
		if (__atomic_compare_exchange_n(&chunk, &none, fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			__atomic_store_n(&used, 0, __ATOMIC_RELEASE);
		base = __atomic_load_n(&chunk, __ATOMIC_ACQUIRE);
	}
	uint64_t at = __atomic_fetch_add(&used, n, __ATOMIC_ACQ_REL);
	return at + n <= CHUNK ? base + at : map(n);
}

void __wrap_free(void *p) { (void)p; }

/* A stack for the thread that asks; the runtime wants to know its bounds. */
int __wrap_pthread_getattr_np(pthread_t thread, pthread_attr_t *attr) HIDDEN;
int __wrap_pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	uint64_t here = (uint64_t)__builtin_frame_address(0) & ~(uint64_t)(DP_PAGE_SIZE - 1);
	(void)thread;
	return pthread_attr_setstack(attr, (void *)(here - STACK_SIZE / 4), STACK_SIZE / 4 + 2 * DP_PAGE_SIZE);
}

int __wrap_pthread_attr_getstacksize(const pthread_attr_t *attr, size_t *size) HIDDEN;
int __wrap_pthread_attr_getstacksize(const pthread_attr_t *attr, size_t *size)
{
	(void)attr;
	*size = STACK_SIZE;
	return 0;
}

/* Mutexes and condition variables, both zero at first: libc's would believe
 * that there is one thread and wake nobody. The mutex is that of U. Drepper,
 * "Futexes Are Tricky", 2011, section 6. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) HIDDEN;
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	uint32_t *word = (uint32_t *)mutex, zero = 0;
	if (__atomic_compare_exchange_n(word, &zero, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;
	while (__atomic_exchange_n(word, 2, __ATOMIC_ACQUIRE) != 0)
		raw(SYS_futex, word, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) HIDDEN;
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	if (__atomic_exchange_n((uint32_t *)mutex, 0, __ATOMIC_RELEASE) == 2)
		raw(SYS_futex, mutex, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) HIDDEN;
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	uint32_t seen = __atomic_load_n((uint32_t *)cond, __ATOMIC_ACQUIRE);
	__wrap_pthread_mutex_unlock(mutex);
	raw(SYS_futex, cond, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0);
	while (__atomic_exchange_n((uint32_t *)mutex, 2, __ATOMIC_ACQUIRE) != 0)
		raw(SYS_futex, mutex, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
	return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond) HIDDEN;
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	__atomic_fetch_add((uint32_t *)cond, 1, __ATOMIC_RELEASE);
	raw(SYS_futex, cond, FUTEX_WAKE_PRIVATE, 0x7fffffff, 0, 0, 0);
	return 0;
}

/* dp_thread(flags, stack, tls): a thread that calls the function on its stack
 * with the argument behind that, and ends. */
long dp_thread(long flags, void *stack, void *tls) HIDDEN;
__asm__(".text\n"
	".hidden dp_thread\n"
	".globl dp_thread\n"
	".type dp_thread, @function\n"
	"dp_thread:\n"
	"	mov %rdx, %r8\n"
	"	xor %edx, %edx\n"
	"	xor %r10d, %r10d\n"
	"	mov $56, %eax\n" /* clone */
	"	syscall\n"
	"	test %rax, %rax\n"
	"	jnz 1f\n"
	"	xor %ebp, %ebp\n"
	"	pop %rax\n"
	"	pop %rdi\n"
	"	call *%rax\n"
	"	xor %edi, %edi\n"
	"	mov $60, %eax\n" /* exit */
	"	syscall\n"
	"1:	ret\n"
	".size dp_thread, . - dp_thread\n");

/* The new thread's variables and control block are copies of ours: what the
 * runtime uses of them it sets itself. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) HIDDEN;
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	const uint8_t *self;
	(void)attr;
	__asm__("mov %%fs:16, %0" : "=r"(self)); /* tcbhead_t.self */
	uint64_t below = pages(tls_size) + DP_PAGE_SIZE;
	uint8_t *stack = map(STACK_SIZE + below + TCB_SIZE);
	if (!stack)
		return EAGAIN;
	/* At the same place of a page, so that all alignments hold. */
	uint64_t off = (uint64_t)self & (DP_PAGE_SIZE - 1);
	uint8_t *tcb = stack + STACK_SIZE + below - DP_PAGE_SIZE + off;
	for (uint64_t i = 0; i < tls_size + 64; i++)
		tcb[-(long)i] = self[-(long)i];
	for (uint64_t i = 0; i < TCB_SIZE - off; i++)
		tcb[i] = self[i];
	*(uint8_t **)tcb = tcb;
	*(uint8_t **)(tcb + 16) = tcb;
	void **top = (void **)(stack + STACK_SIZE) - 2;
	top[0] = (void *)fn;
	top[1] = arg;
	long tid = dp_thread(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS, top, tcb);
	if (failed(tid))
		return EAGAIN;
	*thread = (pthread_t)tcb;
	return 0;
}
