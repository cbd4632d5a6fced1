package test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// randomFunction is a function of a random program. It has two arguments of
// type long, and returns a long unless it is void.
type randomFunction struct {
	name  string
	void  bool
	cost  int    // instructions that a call takes at the most, roughly
	asm   bool   // in assembly,
	leaf  bool   // changing nothing but rax and the flags,
	loose bool   // running on a stack that is not aligned to 16,
	flags bool   // reading flags that its caller set: not for C;
	red   bool   // reading the red zone of who jumps to it: not for C
	inner string // a label in its first bytes to jump to
}

// costLimit bounds a call of a function.
const costLimit = 1500

// generator makes a program. A function calls those made before it, so that
// every call ends.
type generator struct {
	*rand.Rand
	all       []*randomFunction
	c         strings.Builder
	functions []string // of the assembly, the last to come first in the text
	n         int
}

// randomSources makes main.c's functions.h, a C file and an assembly file.
func randomSources(seed uint64) (files map[string]string) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0xd1ce))}
	g.c.WriteString(randomPrelude)
	g.assembly() // something to call
	for range 25 + g.IntN(40) {
		if g.IntN(3) == 0 {
			g.inC()
		} else {
			g.assembly()
		}
	}
	return map[string]string{"functions.h": g.list(), "c.c": g.c.String(), "asm.S": g.text()}
}

// list is functions.h: all functions that C may call.
func (g *generator) list() string {
	text := fmt.Sprintf("#ifndef ROUNDS\n#define ROUNDS %d\n#endif\n", 1+g.IntN(6))
	for _, f := range g.all {
		macro := "X"
		if f.void {
			macro = "V"
		}
		if tidy(f) {
			text += fmt.Sprintf("%s(%s)\n", macro, f.name)
		}
	}
	return text
}

// localC are the local labels of functions that are not in the assembly.
var localC = regexp.MustCompile(`\.L(c\d)`)

// text is the assembly. A pointer .LpNAME leads to every function.
func (g *generator) text() string {
	functions := slices.Clone(g.functions)
	slices.Reverse(functions)
	text := "\t.text\n" + localC.ReplaceAllString(strings.Join(functions, ""), "$1") + "\t.data\n\t.p2align 3\n"
	for _, f := range g.all {
		text += fmt.Sprintf(".Lp%[1]s:\t.quad %[1]s\n", f.name)
	}
	return text + "\t.section .note.GNU-stack, \"\", @progbits\n"
}

const randomPrelude = `#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#define V(name) extern void name(long, long);
#define X(name) extern long name(long, long);
#include "functions.h"
extern volatile long random_words[16];
struct wide { long a, b, c; };
#ifdef __clang__
#define noclone
#endif
`

func (g *generator) name(prefix string) string {
	g.n++
	return fmt.Sprintf("%s%d", prefix, g.n)
}

// of picks one of several texts.
func of[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

// callee picks a function for which ok holds and whose calls, times of them,
// are still affordable; nil if there is none.
func (g *generator) callee(times int, ok func(*randomFunction) bool) *randomFunction {
	var fit []*randomFunction
	for _, f := range g.all {
		if f.cost*times < costLimit && ok(f) {
			fit = append(fit, f)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	// Mostly one of those made last: the graph of calls gets deep.
	if recent := max(1, len(fit)/3); g.IntN(2) == 0 {
		fit = fit[len(fit)-recent:]
	}
	return of(g, fit...)
}

// call is a call in C, as an expression.
func (g *generator) call(f *randomFunction, cost *int, times int, a, b string) string {
	*cost += f.cost * times
	if f.void {
		return fmt.Sprintf("(%s(%s, %s), %d)", f.name, a, b, g.IntN(9))
	}
	return fmt.Sprintf("%s(%s, %s)", f.name, a, b)
}

// inC adds a function in C.
func (g *generator) inC() {
	f := &randomFunction{name: g.name("c"), cost: 40}
	pick := func() *randomFunction {
		return g.callee(9, func(f *randomFunction) bool { return !f.flags && !f.red })
	}
	k := func() int { return 1 + g.IntN(100) }
	x, y := pick(), pick()
	if x == nil || y == nil {
		return
	}
	call := func(to *randomFunction, times int, a, b string) string { return g.call(to, &f.cost, times, a, b) }
	var body, before string
	switch g.IntN(18) {
	case 0:
		body = fmt.Sprintf("return (a * %d) ^ (b >> %d);", k(), k()%60)
	case 1:
		body = fmt.Sprintf("long x = %s; x += %s; return x ^ a;", call(x, 1, "a + 1", "b"), call(y, 1, "x & 15", "b"))
	case 2:
		body = fmt.Sprintf("long s = b; for (long i = 0; i < (a & 3) + 1; i++) s += %s; return s;", call(x, 4, "s", "i"))
	case 3:
		body = fmt.Sprintf("switch (a & 7) { case 0: return b; case 1: return %s; case 2: a++; /* fall through */ case 3: return a * %d; case 4: return %s; case 5: return -a; case 6: b ^= %d; break; default: return %d; } return a + b;",
			call(x, 1, "b", "a"), k(), call(y, 1, "a", "a"), k(), k())
	case 4:
		body = fmt.Sprintf("static const void *const to[] = {&&l0, &&l1, &&l2}; long n = 0; l0: if (n > 5) return a; n++; goto *to[(a + n) & 1 ? 1 : 2]; l1: a += %s; goto l0; l2: a ^= %d; goto *to[n & 1];", call(x, 7, "n", "b"), k())
	case 5:
		body = fmt.Sprintf("long n = a & 7; if (n == 0) return %s; return %s(n - 1, b + %d) + 1;", call(x, 1, "b", "a"), f.name, k())
		f.cost *= 8
	case 6:
		body = fmt.Sprintf("long n = a & 3; if (n == 0) return b; random_words[%d] += %s(n - 1, b); return %s(n - 1, a) + %s;", k()%16, f.name, f.name, call(x, 8, "a", "n"))
		f.cost *= 8
	case 7:
		h := g.name("v")
		before = fmt.Sprintf("__attribute__((noinline)) static long %s(int n, ...) { va_list l; va_start(l, n); long s = 0; while (n--) s += va_arg(l, long); va_end(l); return s; }\n", h)
		body = fmt.Sprintf("return %s(3, a, b, %dL) + %s;", h, k(), call(x, 1, "a", "b"))
		f.cost += 60
	case 8:
		body = fmt.Sprintf("double d = (double)(a %% 1000) * 1.5; for (int i = 0; i < 3; i++) d = d / 3 + (double)(b %% 77); return (long)d + %s;", call(x, 1, "b", "1"))
		f.cost += 60
	case 9:
		h := g.name("w")
		before = fmt.Sprintf("__attribute__((noinline)) struct wide %s(long a) { struct wide w = {a, a + 1, a * %d}; return w; }\n", h, k())
		body = fmt.Sprintf("struct wide w = %s(a); return w.a + w.b * w.c + %s;", h, call(x, 1, "w.b & 63", "b"))
	case 10:
		body = fmt.Sprintf("volatile char *p = alloca((unsigned)(a & 63) + 1); p[0] = (char)b; return p[0] + %s;", call(x, 1, "a", "b"))
	case 11:
		body = fmt.Sprintf("static long (*volatile p)(long, long); p = (long (*)(long, long))%s; long r = p(a, b); return %s;", x.name, map[bool]string{true: "a", false: "r"}[x.void])
		f.cost += x.cost
	case 12:
		body = fmt.Sprintf("if (__builtin_expect(a > %d, 0)) { random_words[%d]++; a = %s; } return a + %d;", k(), k()%16, call(y, 1, "a & 31", "b"), k())
	case 13:
		body = fmt.Sprintf("return %s;", call(x, 1, "a ^ 1", "b"))
	case 14:
		f.void = true
		body = of(g, "(void)a; (void)b;", fmt.Sprintf("random_words[%d] += a - b;", k()%16), fmt.Sprintf("(void)%s;", call(x, 1, "b", "a")))
	case 15:
		h := g.name("q")
		before = fmt.Sprintf("static int %s(const void *a, const void *b) { long x = *(const long *)a, y = *(const long *)b; return x < y ? -1 : x > y; }\n", h)
		body = fmt.Sprintf("long v[5] = {a, b, %d, %d, a ^ b}; qsort(v, 5, sizeof *v, %s); return v[2];", k(), k(), h)
		f.cost += 600
	case 16:
		body = fmt.Sprintf("jmp_buf j; volatile long n = 0; if (setjmp(j) < 3) { n += %s; longjmp(j, (int)(++random_words[15] & 1) + 3); } return n;", call(x, 2, "a", "b"))
		f.cost += 200
	case 17:
		body = fmt.Sprintf("char t[64]; memset(t, (int)a, sizeof t); t[b & 63] = %d; return t[(a ^ b) & 63] + %s;", k(), call(x, 1, "b", "b"))
		f.cost += 60
	}
	if f.cost > 3*costLimit {
		return
	}
	attributes := of(g, "noinline", "noinline, noclone", "noinline, cold", "noinline, hot", "noinline, aligned(64)", "noinline, weak",
		`noinline, visibility("hidden")`, `noinline, section(".text.apart")`, "", `noinline, target("avx")`)
	result := "long"
	if f.void {
		result = "void"
	}
	fmt.Fprintf(&g.c, "%s__attribute__((%s)) %s %s(long a, long b) { %s }\n", before, attributes, result, f.name, body)
	g.all = append(g.all, f)
}
