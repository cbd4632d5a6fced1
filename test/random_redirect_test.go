package test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// relyingFlags are builds whose compilers keep values in registers over calls of functions
// that they know.
var relyingFlags = []string{
	"gcc -O2", "gcc -O2", "gcc -O3", "gcc -Os", "gcc -O2 -flto", "gcc -O3 -march=native", "gcc -O2 -fno-omit-frame-pointer",
	"gcc -O2 -no-pie -fno-pie", "gcc -O2 -fno-jump-tables", "gcc -O2 -mno-red-zone -fcf-protection=full",
	"clang -O2", "clang -O2 -mllvm -enable-ipra", "clang -O3 -march=native -mllvm -enable-ipra", "clang -Os -mllvm -enable-ipra",
}

// TestRandomRedirected: programs all of whose functions are redirected to code that
// changes every register that the ABI lets it, and calls the original, do what they
// always do.
func TestRandomRedirected(t *testing.T) {
	lane.Parallel(t)
	so := clobbering(t)
	need(t, "gcc")
	need(t, "clang")
	randomSeeds(t, 10, func(t *testing.T, seed uint64) uint64 {
		p := &random{seed: seed, dir: t.TempDir()}
		r := rand.New(rand.NewPCG(seed, 0xfee1))
		write(t, filepath.Join(p.dir, "program.c"), relyingSource(r), 0o600)
		build := strings.Fields(relyingFlags[r.IntN(len(relyingFlags))])
		if err := p.build(build[0], append(build[1:], "-w", "-fwrapv", filepath.Join(p.dir, "program.c"))...); err != nil {
			t.Error(err)
			return 0
		}
		defer p.keepIfFailed(t)
		return p.checkClobbered(t, so)
	})
}

// checkClobbered compares what the program does with and without the plug-in. It
// reports how many runs were compared.
func (p *random) checkClobbered(t *testing.T, so string) (compared uint64) {
	t.Helper()
	if !ends(t, p.program, p.dir) {
		return 0
	}
	without := run(t, cmd(p.program))
	for _, flags := range [][]string{nil, {"--threshold", "2", "--control"}} {
		with, _ := counted(t, cmd(p.program), append(flags, "--translator", so)...)
		if same(t, without, with); t.Failed() {
			t.Logf("%v", p)
		}
		compared++
	}
	return compared
}

// relying makes programs whose functions have many values over calls.
type relying struct {
	*rand.Rand
	strings.Builder
	list []relyingFunction
}

type relyingFunction struct {
	types []string // of the arguments
	void  bool
	real  bool // it returns a double
	cost  int
}

func relyingSource(r *rand.Rand) string {
	g := &relying{Rand: r}
	g.WriteString("#include <stdio.h>\n#include <stdlib.h>\nstatic volatile long seen; static long memory[64];\n" +
		"struct pair { long a, b; }; struct mixed { long a; double b; };\n")
	for range 12 + r.IntN(20) {
		g.function()
	}
	g.WriteString("int main(int argc, char **argv)\n{\n\tlong s = argc; double d = argc;\n\tfor (long i = 0; i < 7; i++) {\n")
	for i, f := range g.list {
		fmt.Fprintf(g, "\t\t%s;\n", g.call(i, f, "s", []string{"i", "s", "3L"}, []string{"d", "0.5"}))
		if r.IntN(3) == 0 {
			g.WriteString("\t\tseen += s;\n")
		}
	}
	g.WriteString("\t}\n\tprintf(\"%ld %ld %.17g\\n\", s, seen, d);\n\treturn 0;\n}\n")
	return g.String()
}

// call is a statement that calls function i and adds what it returns to sum, or to
// one of reals.
func (g *relying) call(i int, f relyingFunction, sum string, longs, reals []string) string {
	var args []string
	for _, typ := range f.types {
		from := longs
		if typ == "double" {
			from = reals
		}
		a := from[g.IntN(len(from))]
		if typ == "long" && g.IntN(3) == 0 {
			a = fmt.Sprintf("%s %s %d", a, []string{"+", "^", "*"}[g.IntN(3)], g.IntN(100))
		}
		args = append(args, a)
	}
	text := fmt.Sprintf("f%d(%s)", i, strings.Join(args, ", "))
	switch {
	case f.void:
		return text
	case f.real:
		return fmt.Sprintf("%s = %s * 0.25 + 1", reals[0], text)
	}
	return fmt.Sprintf("%s += %s", sum, text)
}

// function adds one that calls those before it.
func (g *relying) function() {
	f := relyingFunction{void: g.IntN(5) == 0, real: g.IntN(4) == 0, cost: 5}
	var parameters []string
	longs, reals := []string{"s"}, []string{"d"}
	n := g.IntN(5)
	if g.IntN(6) == 0 {
		n = 7 + g.IntN(5) // some are on the stack
	}
	for i := range n {
		typ, name := "long", fmt.Sprintf("p%d", i)
		if g.IntN(4) == 0 {
			typ = "double"
			reals = append(reals, name)
		} else {
			longs = append(longs, name)
		}
		f.types, parameters = append(f.types, typ), append(parameters, typ+" "+name)
	}
	result, attribute := "long", "static "
	if f.real {
		result = "double"
	}
	if f.void {
		result = "void"
	}
	if g.IntN(4) == 0 {
		attribute = ""
	}
	list := strings.Join(parameters, ", ")
	if n == 0 {
		list = "void"
	}
	fmt.Fprintf(g, "__attribute__((noinline, noclone)) %s%s f%d(%s)\n{\n\tlong s = %d; double d = %d.5;\n", attribute, result, len(g.list), list, g.IntN(50), g.IntN(9))
	leaf := g.IntN(3) == 0 || len(g.list) == 0
	for i := range g.IntN(7) {
		fmt.Fprintf(g, "\tlong v%d = %s * %d + %d;\n", i, longs[g.IntN(len(longs))], 1+g.IntN(9), g.IntN(99))
		longs = append(longs, fmt.Sprintf("v%d", i))
	}
	for i := range g.IntN(4) {
		fmt.Fprintf(g, "\tdouble w%d = %s * 0.5 + (double)(%s & 7);\n", i, reals[g.IntN(len(reals))], longs[g.IntN(len(longs))])
		reals = append(reals, fmt.Sprintf("w%d", i))
	}
	if g.IntN(5) == 0 {
		fmt.Fprintf(g, "\tvolatile long local[%d]; local[1] = s; s += local[1];\n", 4+g.IntN(40))
	}
	for range 1 + g.IntN(5) {
		g.statement(&f, leaf, longs, reals)
	}
	fmt.Fprintf(g, "\tmemory[%d] += s;\n", g.IntN(64))
	g.end(f, longs, reals)
	g.list = append(g.list, f)
}

// end returns a value that needs all that there is.
func (g *relying) end(f relyingFunction, longs, reals []string) {
	switch {
	case f.void:
		g.WriteString("\tseen = seen + s;\n}\n")
	case f.real:
		fmt.Fprintf(g, "\treturn %s + (double)(s & 1023);\n}\n", strings.Join(reals, " + "))
	default:
		fmt.Fprintf(g, "\treturn %s + (d > 3);\n}\n", strings.Join(longs, " ^ "))
	}
}

// statement may call a function that is not too long, in a loop or not.
func (g *relying) statement(f *relyingFunction, leaf bool, longs, reals []string) {
	v, w := longs[g.IntN(len(longs))], longs[g.IntN(len(longs))]
	const tooLong = 20_000
	i := 0
	if len(g.list) > 0 {
		i = g.IntN(len(g.list))
	}
	if leaf || g.list[i].cost > tooLong {
		switch g.IntN(4) {
		case 0:
			fmt.Fprintf(g, "\tfor (long i = 0; i < (%s & 7); i++) %s += i * %s;\n", v, w, v)
		case 1:
			fmt.Fprintf(g, "\tswitch (%s & 7) { case 0: s += 3; break; case 1: s ^= %s; break; case 2: %s *= 5; break; case 3: s -= 9; break; case 5: d *= 0.5; break; case 6: s += %s; break; }\n", v, w, w, v)
		case 2:
			fmt.Fprintf(g, "\tif (%s > %s) %s += %d; else d = d * 0.5 + %d;\n", v, w, v, g.IntN(99), g.IntN(9))
		default:
			fmt.Fprintf(g, "\t%s = %s * 3 + (%s >> 2);\n", v, w, v)
		}
		return
	}
	callee := g.list[i]
	call := g.call(i, callee, "s", longs, reals)
	switch g.IntN(4) {
	case 0:
		f.cost += 4 * callee.cost
		fmt.Fprintf(g, "\tfor (long i = 0; i < 4; i++) { %s; %s += i ^ %s; }\n", call, v, w)
	case 1:
		f.cost += callee.cost
		fmt.Fprintf(g, "\tif (%s & 1) { %s; } else %s++;\n", v, call, w)
	default:
		f.cost += callee.cost
		fmt.Fprintf(g, "\t%s;\n\t%s ^= %s + s;\n", call, v, w)
	}
}
