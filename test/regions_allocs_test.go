package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Blocks of malloc as regions, by who asks for them: hotspots run --region malloc@WHAT.

// askedFor is what the program has counted itself, as the last line that it prints.
type askedFor struct{ accesses, blocks uint64 }

func runAsking(t *testing.T, program string, env, flags []string, args ...string) (a askedFor, l regionList, r result) {
	t.Helper()
	c := cmd(append([]string{program}, args...)...)
	c.env = env
	r, table := countedAt(t, c, flags...)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if n, err := fmt.Sscan(lines[len(lines)-1], &a.accesses, &a.blocks); r.status != 0 || n != 2 {
		t.Fatalf("%v %v: %+v: %v", flags, args, r, err)
	}
	l = regionsOf(t, table)
	if len(l.Regions) == 0 || l.Regions[0].Asked == nil {
		t.Fatalf("%v %v: %+v: %+v", flags, args, r, l)
	}
	return a, l, r
}

// equal compares: all that the program does with its own blocks are stores by touch().
func (a askedFor) equal(t *testing.T, l *regionList, what ...any) {
	t.Helper()
	g := &l.Regions[0]
	if g.Stores != a.accesses || g.Loads != 0 || g.Asked.Blocks != a.blocks || g.Asked.Unheld+g.Asked.Unled != 0 || len(g.Functions) != 1 {
		t.Errorf("%v: not %d stores of %d blocks: %+v", what, a.accesses, a.blocks, g)
	}
}

func buildAsking(t *testing.T, how ...string) string {
	return compile(t, need(t, how[0]), append(slices.Clone(how[1:]), "-Wno-use-after-free", "-Wno-unknown-warning-option"), "regionsallocs.c")
}

var (
	askingBuilds = [][]string{{"gcc", "-O2"}, {"gcc", "-O1", "-fcf-protection=full", "-no-pie"}, {"clang", "-O2"}, {"gcc", "-O0"}}
	askingWays   = [][]string{{"plain"}, {"moves"}, {"threads", "300"}, {"forks"}, {"signals"}, {"many", "3000"}}
)

// TestRegionsAllocs: stores to blocks of one function are recorded, each, and none to those of
// another one, also where they come to lie where the first ones were; blocks that move are followed; what
// other threads free, what children do, and what handlers do in between.
func TestRegionsAllocs(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some(askingBuilds, 0) {
		program := buildAsking(t, how...)
		for _, flags := range lane.Some([][]string{{}, {"--objects", "main"}, {"--objects", "all"}, {"--lock"}, {"--keep-calls"}}, 0) {
			for _, args := range askingWays {
				a, l, r := runAsking(t, program, nil, append([]string{"--region", "malloc@mine"}, flags...), args...)
				a.equal(t, &l, how, flags, args)
				if strings.Contains(r.stdout, "reused 0") || strings.Contains(r.stdout, "moved 0") {
					t.Errorf("%v: %s: it shows nothing", args, r.stdout)
				}
			}
		}
	}
}

// TestRegionsAllocsOwn: an allocator of the program's own, whose functions are known to leave
// registers alone, and one of which is nearly empty.
func TestRegionsAllocsOwn(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some([][]string{{"gcc", "-O2"}, {"clang", "-O2"}, {"gcc", "-O2", "-fcf-protection=full"}}, 0) {
		program := compile(t, need(t, how[0]), append(slices.Clone(how[1:]), "-fno-builtin"), "regionsown.c")
		a, l, _ := runAsking(t, program, nil, []string{"--region", "malloc@mine"})
		a.equal(t, &l, how)
	}
}

// TestRegionsAllocsNew: blocks that C++'s new asks for, by a function's name with and without
// arguments; one that throws.
func TestRegionsAllocsNew(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some([][]string{{"g++", "-O2", "-std=c++17"}, {"clang++", "-O1", "-std=c++17"}}, 0) {
		program := compile(t, need(t, how[0]), how[1:], "regionsnew.cc")
		a, l, _ := runAsking(t, program, nil, []string{"--region", "malloc@make", "--region", "malloc@big()", "--region", "nodes=malloc@make(long)"})
		var loads uint64
		for _, f := range append(l.Regions[0].Functions, l.Regions[2].Functions...) {
			if strings.HasPrefix(f.Function, "sum(") {
				loads += f.Loads
			}
		}
		// Of two sites that have the same code the first has the blocks.
		if n := l.Regions[0].Asked; loads != a.accesses || n.Blocks != a.blocks || n.Freed != a.blocks || n.Most != a.blocks/2+1 || l.Regions[1].Asked.Blocks != 0 || l.Regions[2].Asked.Blocks != 0 {
			t.Errorf("%v: not %+v: %+v", how, a, l)
		}
	}
}

// TestRegionsAllocsPlaces: a call by its address, by that behind it, by its line; all of an
// object; and what is none.
func TestRegionsAllocsPlaces(t *testing.T) {
	lane.Parallel(t)
	program := buildAsking(t, "gcc", "-O1", "-g")
	text := run(t, cmd(need(t, "objdump"), "-d", "--disassemble=mine", program)).stdout
	call := regexp.MustCompile(`(?m)^ *([0-9a-f]+):.*call.*<malloc@plt>\n *([0-9a-f]+):`).FindStringSubmatch(text)
	if call == nil {
		t.Fatal(text)
	}
	source, err := os.ReadFile("testdata/regionsallocs.c")
	if err != nil {
		t.Fatal(err)
	}
	line := 1 + strings.Count(string(source[:strings.Index(string(source), "case MALLOC:")]), "\n")
	for _, what := range []string{"main+0x" + call[1], "main+0x" + call[2], "main:mine", "main"} {
		a, l, _ := runAsking(t, program, nil, []string{"--region", "malloc@" + what}, "many", "10")
		switch {
		case what == "main": // and what others ask for: one block with all addresses, and blocks that come later
			if g := l.Regions[0]; g.Asked.Blocks != 2*a.blocks+1 || g.Stores != 2*a.accesses+2*a.blocks || g.Loads == 0 {
				t.Errorf("%s: %+v", what, l)
			}
		default:
			a.equal(t, &l, what)
		}
	}
	a, l, _ := runAsking(t, program, nil, []string{"--region", fmt.Sprintf("malloc@regionsallocs.c:%d", line)}, "many", "10")
	if g := l.Regions[0]; g.Asked.Blocks != 2*a.blocks+1 { // it is in line in both functions
		t.Errorf("line %d: %+v", line, l)
	}
	for _, what := range []string{"nothing", "main+0x1", "regionsallocs.c:1", "nothing.so:get", "main:nothing"} {
		r := run(t, cmd(build(t, "hotspots"), "run", "--region", "malloc@"+what, "--", program))
		if r.status != 125 || !strings.Contains(r.stderr, "--region malloc@"+what) {
			t.Errorf("%s: %+v", what, r)
		}
	}
	if r := run(t, cmd(build(t, "hotspots"), "run", "--region", "malloc@mine", "--audit", "--", program)); r.status != 125 || !strings.Contains(r.stderr, "--audit does not go") {
		t.Errorf("%+v", r)
	}
}

// TestRegionsAllocsLater: blocks that a library asks for which comes later, twice.
func TestRegionsAllocsLater(t *testing.T) {
	lane.Parallel(t)
	library := filepath.Join(t.TempDir(), "libasks.so")
	source := filepath.Join(t.TempDir(), "asks.c")
	code := "#include <stdlib.h>\nvoid *get(size_t n) { void *p = malloc(n); __asm__ volatile(\"\" : \"+r\"(p)); return p; }\n"
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, cmd(need(t, "gcc"), "-O1", "-shared", "-fPIC", "-o", library, source)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	a, l, r := runAsking(t, buildAsking(t, "gcc", "-O2"), nil, []string{"--region", "malloc@" + library + ":get"}, "later", library)
	a.equal(t, &l)
	if !strings.Contains(r.stderr, "not loaded yet") {
		t.Errorf("%+v", r)
	}
}

// TestRegionsAllocsMany: 100,000 blocks at a time; and more than there is room for, which is told,
// and all that there was room for is recorded.
func TestRegionsAllocsMany(t *testing.T) {
	lane.Parallel(t)
	program := buildAsking(t, "gcc", "-O2")
	for _, n := range lane.Some([]string{"20000", "100000", "1300000"}, 0) {
		a, l, _ := runAsking(t, program, nil, []string{"--region", "malloc@mine"}, "many", n)
		g := l.Regions[0]
		if over := n == "1300000"; g.Asked.Blocks != a.blocks || g.Stores != a.accesses-g.Asked.Unheld || g.Asked.Unheld > 0 != over || g.Asked.Most+g.Asked.Unheld != a.blocks {
			t.Errorf("%s: %+v: %+v", n, a, l)
		}
	}
}
