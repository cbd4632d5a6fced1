/* Raw system calls and the few helpers that all need, so that nothing here
 * depends on a libc function: those can be counted themselves, and most must
 * not be called between a clone and the child's first instructions. */
#ifndef DYNPROF_RAW_H
#define DYNPROF_RAW_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* Code that runs on the target's threads in the middle of its functions may
 * touch no vector register, and the compiler may not turn loops into calls of
 * memcpy or memset. internal/checkobj reads the objects (make lint). */
#pragma GCC target("general-regs-only")
#pragma GCC optimize("no-tree-loop-distribute-patterns", "no-stack-protector")

#define HIDDEN __attribute__((visibility("hidden")))

static inline long raw6(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#define RAW_SELECT(_1, _2, _3, _4, _5, _6, _7, N, ...) N
#define RAW1(n) raw6(n, 0, 0, 0, 0, 0, 0)
#define RAW2(n, a) raw6(n, (long)(a), 0, 0, 0, 0, 0)
#define RAW3(n, a, b) raw6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define RAW4(n, a, b, c) raw6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define RAW5(n, a, b, c, d) raw6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define RAW6(n, a, b, c, d, e) raw6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define RAW7(n, a, b, c, d, e, f) raw6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
/* raw(SYS_x, ...) returns what the kernel returns: -errno on failure. */
#define raw(...) RAW_SELECT(__VA_ARGS__, RAW7, RAW6, RAW5, RAW4, RAW3, RAW2, RAW1)(__VA_ARGS__)

/* Ends a process of ours. A filter may refuse exit_group: it would go on as the program. */
static inline _Noreturn void end_process(int status)
{
	for (;;) {
		raw(SYS_exit_group, status);
		raw(SYS_kill, raw(SYS_getpid), SIGKILL);
	}
}

/* Whether a system call that returns an address or a count failed. */
static inline int failed(long ret) { return (unsigned long)ret > -4096UL; }

static inline size_t text_len(const char *s)
{
	size_t n = 0;
	while (s[n])
		n++;
	return n;
}

static inline int same_text(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static inline int has_prefix(const char *s, const char *prefix)
{
	while (*prefix)
		if (*s++ != *prefix++)
			return 0;
	return 1;
}

static inline int same_bytes(const void *a, const void *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const uint8_t *)a)[i] != ((const uint8_t *)b)[i])
			return 0;
	return 1;
}

static inline void dp_copy_bytes(void *to, const void *from, size_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

/* Copies s into dst of size n, cut to fit, NUL-terminated; returns its length. */
static inline size_t text_copy(char *dst, size_t n, const char *s)
{
	size_t i = 0;
	for (; s[i] && i + 1 < n; i++)
		dst[i] = s[i];
	dst[i] = 0;
	return i;
}

/* Appends s to a list of names, cut to fit. */
static inline void text_list(char *names, size_t room, const char *s)
{
	size_t n = text_len(names);
	n += text_copy(names + n, room - n, n ? ", " : "");
	text_copy(names + n, room - n, s);
}

#endif
