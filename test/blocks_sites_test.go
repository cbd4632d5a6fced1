package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Who called whom, by hotspots run --edges without --blocks: of direct calls.

// sitesOf are the edges of a table by caller, callee and kind, of those that the lines of
// text name, several of which may be of one edge; - is nobody.
func sitesOf(t *testing.T, table, text string) (got, want map[[3]string]uint64) {
	t.Helper()
	got, want = map[[3]string]uint64{}, map[[3]string]uint64{}
	callees := map[string]bool{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 4 {
			continue
		}
		n, err := strconv.ParseUint(f[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if callees[f[1]] = true; n > 0 {
			want[[3]string{f[0], f[1], strings.ReplaceAll(f[2], "_", " ")}] += n
		}
	}
	for _, e := range readEdges(t, table) {
		caller := e.Caller.Name
		if caller == "" {
			caller = "-"
		}
		if callees[e.Callee.Name] {
			got[[3]string{caller, e.Callee.Name, e.Kind}] += e.Calls
		}
		sum := uint64(0)
		for _, s := range e.Sites {
			sum += s.Calls
		}
		if len(e.Sites) > 0 && sum != e.Calls {
			t.Errorf("%+v: its sites have %d calls", e, sum)
		}
	}
	return got, want
}

// TestSites: each direct call is an edge, exactly, tail calls are of a kind of their own, and
// what comes by pointers is from elsewhere: with threads on all CPUs, in children, killed,
// from plans, with lock.
func TestSites(t *testing.T) {
	lane.Parallel(t)
	gcc, hotspots := need(t, "gcc"), build(t, "hotspots")
	for _, flags := range lane.Some([][]string{{"-O2"}, {"-O2", "-no-pie"}, {"-O2", "-fcf-protection=full"}, {"-O3"}}, 0, 2) {
		program := compile(t, gcc, append(flags, "-pthread"), "sites.c")
		for _, args := range [][]string{{"1", "1000"}, {"4", "20000"}, {"3", "777", "fork"}, {"2", "5000", "kill"}} {
			for _, way := range [][]string{nil, {"--lock"}, {"--threshold", "10"}, {"--control"}, {"--objects", "all"}} {
				t.Run(strings.Join(append(append(flags, args...), way...), " "), func(t *testing.T) {
					t.Parallel()
					table := filepath.Join(t.TempDir(), "table")
					for _, start := range []string{"cold", "warm"} {
						c := cmd(append(append(append([]string{hotspots, "run", "--edges", "--summary", "0", "-o", table}, way...), "--", program), args...)...)
						c.env = []string{"XDG_CACHE_HOME=" + filepath.Dir(program)}
						r := run(t, c)
						if status := map[bool]int{true: 137}[args[len(args)-1] == "kill"]; r.status != status || r.stderr != "" {
							t.Fatalf("%+v", r)
						}
						got, want := sitesOf(t, table, r.stdout)
						for e, n := range want {
							if got[e] != n {
								t.Errorf("%s: %v: %d calls, not %d", start, e, got[e], n)
							}
						}
						if len(want) < 20 || len(got) != len(want) {
							t.Errorf("%s: %d edges, not %d: %v", start, len(got), len(want), got)
						}
						table += "2"
					}
				})
			}
		}
	}
}

// TestSitesPLT: calls of a library's own functions by the PLT are counted by site where they
// are led past it, and those of other objects are from elsewhere.
func TestSitesPLT(t *testing.T) {
	lane.Parallel(t)
	gcc, hotspots, dir := need(t, "gcc"), build(t, "hotspots"), t.TempDir()
	write(t, filepath.Join(dir, "lib.c"), `
#define LONG __asm__ volatile(".rept 80\n\tnop\n\t.endr")
long exported(long n) { LONG; return n + 1; }
long through(long n) { LONG; n = exported(n); LONG; return exported(n) ^ 1; }
long tail(long n) { LONG; return exported(n); }
`, 0o600)
	write(t, filepath.Join(dir, "main.c"), `
long exported(long), through(long), tail(long);
int main(void) { long s = 0; for (int i = 0; i < 1000; i++) { s += through(i); if (i % 2) s += tail(i); if (i % 4 == 0) s += exported(i); } return s == 0; }
`, 0o600)
	for _, row := range []struct {
		flags []string
		says  string
	}{
		{[]string{"-Wl,-z,now,-z,relro"}, "through exported call 2000\ntail exported tail_call 500\n- exported elsewhere 250\n"},
		{[]string{"-Wl,-z,lazy"}, "- exported elsewhere 2750\n"}, // the slots are open
	} {
		lib, program, table := filepath.Join(dir, "libsites.so"), filepath.Join(dir, "program"), filepath.Join(dir, "table")
		for _, args := range [][]string{
			append([]string{gcc, "-O2", "-fPIC", "-shared", "-fno-ipa-ra", "-fsemantic-interposition", "-o", lib, filepath.Join(dir, "lib.c")}, row.flags...),
			{gcc, "-O2", "-o", program, filepath.Join(dir, "main.c"), lib},
		} {
			if r := run(t, cmd(args...)); r.status != 0 {
				t.Fatalf("%+v", r)
			}
		}
		for _, start := range []string{"cold", "warm"} {
			c := cmd(hotspots, "run", "--edges", "--summary", "0", "-o", table, "--", program)
			c.env = []string{"XDG_CACHE_HOME=" + dir}
			if r := run(t, c); r.status != 0 {
				t.Fatalf("%+v", r)
			}
			got, want := sitesOf(t, table, row.says)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v, %s: %v, not %v", row.flags, start, got, want)
			}
			if err := os.Remove(table); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSitesCallgrind: of each call site that is counted callgrind says the same.
func TestSitesCallgrind(t *testing.T) {
	lane.Parallel(t)
	for _, args := range lane.Some(repeatable(t), 2, 3) {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			compareSites(t, append([]string{need(t, args[0])}, args[1:]...))
		})
	}
	t.Run("callsites", func(t *testing.T) {
		t.Parallel()
		compareSites(t, []string{compile(t, need(t, "g++"), []string{"-O2"}, "callsites.cc")}, "DYNPROF_OBJECTS=main") // libgcc asks the CPU, which is another there
	})
}

// compareSites runs a program with its calls counted by site, and under callgrind.
func compareSites(t *testing.T, args []string, env ...string) {
	t.Helper()
	want := callgrindEdges(t, args...)
	path := filepath.Join(t.TempDir(), "table")
	c := cmd(args...)
	c.env = append([]string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + path, "DYNPROF_EDGES=1", "DYNPROF_BLOCKS=0"}, env...)
	same(t, run(t, cmd(args...)), run(t, c))
	sites, wrong, sums := 0, 0, map[string]uint64{}
	for _, e := range readEdges(t, path) {
		sums[e.Kind] += e.Calls
		for _, s := range e.Sites {
			sites++
			if n := want[parseCodeAt(t, e.Caller.Object, s.Address)][parseCodeAt(t, e.Callee.Object, e.Callee.Address)]; n != s.Calls {
				if wrong++; wrong < 20 {
					t.Errorf("%s %s -> %s, at %s: %d times, callgrind says %d: %+v", e.Kind, e.Caller.Name, e.Callee.Name, s.Address, s.Calls, n, want[parseCodeAt(t, e.Caller.Object, s.Address)])
				}
			}
		}
	}
	t.Logf("%d instructions, %v calls; %d wrong", sites, sums, wrong)
	if sums["call"] == 0 || sums["tail call"] == 0 {
		t.Errorf("%v", sums)
	}
}

// TestSitesReaders: what reads tables shows callers, or says why it does not.
func TestSitesReaders(t *testing.T) {
	lane.Parallel(t)
	hotspots, dir := build(t, "hotspots"), t.TempDir()
	program := compile(t, need(t, "gcc"), []string{"-O2", "-pthread"}, "sites.c")
	path, none := filepath.Join(dir, "table"), filepath.Join(dir, "none")
	for _, args := range [][]string{{"-o", path}, {"-o", none, "--keep-calls"}} {
		args = append(append([]string{hotspots, "run", "--edges", "--objects", "main", "--summary", "0"}, args...), "--", program, "2", "50")
		if r := run(t, cmd(args...)); r.status != 0 || r.stderr != "" {
			t.Fatalf("%+v", r)
		}
	}
	for _, row := range []struct {
		args   []string
		says   string
		status int
	}{
		{[]string{"calls", path}, `calls between functions; besides, \d+ came from elsewhere; 0 of \d+ call sites are not counted\n`, 0},
		{[]string{"calls", none}, `: 0 calls between functions; besides, [0-9,]+ came from elsewhere; no call site is counted, as with --keep-calls`, 0},
		{[]string{"calls", path, "--function", "leaf"}, `(?s)leaf of program: 450 calls.* 200 +44.44% +call +calls of program\n.* 100 +22.22% +elsewhere +from elsewhere: by pointers`, 0},
		{[]string{"calls", path, "--function", "tails", "--format", "csv"}, `,tails,\S+,leaf,tail call,50\n`, 0},
		{[]string{"calls", path, "--format", "json"}, `"sites_counted":\d+,"sites_not_counted":0,"edges":\[`, 0},
		{[]string{"calls", path, "--format", "folded"}, `(?m)^calls;leaf 200$`, 0},
		{[]string{"calls", path, "--format", "dot", "--top", "0"}, `label="50", penwidth=\S+, style=dashed`, 0},
		{[]string{"calls", path, "--inclusive"}, `counts calls by site, and no instructions: run the program with hotspots run --blocks --edges`, 1},
		{[]string{"report", path, "--callers", "other"}, `(?s) 100 +66.67% +call +calls of program.* 50 +33.33% +tail call +tails of program`, 0},
		{[]string{"report", path, "--callees", "calls"}, `(?s) 200 +66.67% +call +leaf of program.* 100 +33.33% +call +other of program`, 0},
		{[]string{"report", path, "--filter", "leaf"}, ` 450 `, 0},
		{[]string{"show", "leaf", path}, `(?s) 200 +44.44% +call +calls of program`, 0},
		{[]string{"export", path, "--format", "callgrind"}, `(?m)^fn=leaf\n0x\w+ 450$`, 0},
		{[]string{"annotate", "leaf", path}, `counts no blocks: run the program with hotspots run --blocks`, 1},
		{[]string{"reset", path}, `counts calls by site, and those counts cannot be reset`, 1},
	} {
		r := run(t, cmd(append([]string{hotspots}, row.args...)...))
		if r.status != row.status || !regexp.MustCompile(row.says).MatchString(r.stdout+r.stderr) {
			t.Errorf("%v: not %q: %+v", row.args, row.says, r)
		}
	}
}

// TestSitesPaused: while counting is paused no site counts, whatever the form of its stub,
// and those that run meanwhile.
func TestSitesPaused(t *testing.T) {
	lane.Parallel(t)
	source := write(t, filepath.Join(t.TempDir(), "paused.c"), `
#include <stdio.h>
#include "dynprof.h"
#define LONG __asm__ volatile(".rept 80\n\tnop\n\t.endr")
__attribute__((noipa)) static long leaf(long n) { LONG; LONG; return n + 1; } /* too far for a short jump */
__attribute__((noipa)) static long moved(long n) { return leaf(n + 7); }
long flags(long n), carries(long n);
__asm__(".text\n.type flags, @function\nflags:\nmov $0, %eax\nadc %rdi, %rax\n.rept 80\nnop\n.endr\nret\n.size flags, .-flags\n"
	".type carries, @function\ncarries:\n.rept 80\nnop\n.endr\nstc\ncall flags\nclc\nret\n.size carries, .-carries\n");
__attribute__((noipa)) static long work(long n) { long s = 0; for (; n > 0; n--) s += leaf(n) + moved(n) + carries(n); return s; }
int main(void)
{
	long s = work(1000);
	int err = dynprof_pause();
	s += work(500);
	err |= dynprof_resume();
	s += work(250);
	printf("%d %d\n", err, s == 0);
	return 0;
}
`, 0o600)
	program := filepath.Join(t.TempDir(), "paused")
	if r := run(t, cmd(need(t, "gcc"), "-O2", "-I../libdynprof", "-o", program, source, "-ldl")); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	const says = "work leaf call 1250\nmoved leaf tail_call 1250\nwork moved call 1250\nwork carries call 1250\ncarries flags call 1250\n"
	for _, way := range [][]string{nil, {"--lock"}, {"--control"}, {"--threshold", "5"}} {
		table := filepath.Join(t.TempDir(), "table")
		r := run(t, cmd(append(append([]string{build(t, "hotspots"), "run", "--edges", "--objects", "main", "--summary", "0", "-o", table}, way...), "--", program)...))
		if r.stdout != "0 0\n" || r.stderr != "" {
			t.Fatalf("%v: %+v", way, r)
		}
		if got, want := sitesOf(t, table, says); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v: %v, not %v", way, got, want)
		}
	}
}
