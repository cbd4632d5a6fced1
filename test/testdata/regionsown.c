/* An allocator of its own, that gives no block twice. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
static _Alignas(16) char pool[1 << 22];
static size_t used;
__attribute__((noinline)) void *malloc(size_t n) { void *p = pool + used; used += (n + 15) & ~(size_t)15; return used <= sizeof pool ? p : 0; }
__attribute__((noinline)) void free(void *p) { __asm__ volatile("" : : "r"(p)); }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { void *q = malloc(n); if (p && q) memcpy(q, p, n); return q; }
__attribute__((noinline)) void touch(volatile char *p, size_t n) { for (size_t i = 0; i < n; i++) p[i] = (char)i; }
__attribute__((noinline)) void *mine(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
int main(void) { unsigned long s = 0; for (size_t i = 1; i < 500; i++) { char *p = mine(i); touch(p, i); s += i; char *q = malloc(i); touch(q, i); free(p); touch(p, i); } printf("%lu %d\n", s, 499); return 0; }
