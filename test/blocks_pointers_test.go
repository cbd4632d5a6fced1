package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Whom calls by pointers reach, by hotspots run --blocks --edges.

// noted is how often each function has called each other, by name, of those that the lines
// of text name.
func noted(t *testing.T, table, text string) (got, want map[[2]string]uint64, unknown uint64) {
	t.Helper()
	got, want = map[[2]string]uint64{}, map[[2]string]uint64{}
	callers := map[string]bool{}
	for line := range strings.Lines(text) {
		var caller, callee string
		var n uint64
		if c, _ := fmt.Sscan(line, &caller, &callee, &n); c == 3 {
			want[[2]string{caller, callee}], callers[caller] = n, true
		}
	}
	for _, e := range readEdges(t, table) {
		caller, _, _ := strings.Cut(e.Caller.Name, ".") // .isra
		switch {
		case !callers[caller]:
		case e.Callee.Name == "":
			unknown += e.Calls
		default:
			got[[2]string{caller, e.Callee.Name}] += e.Calls
		}
	}
	return got, want, unknown
}

// TestPointers: callees of calls by pointers, and of jumps, are counted in threads, handlers
// and children, and a handler sees nothing of it, at whatever instruction it strikes.
func TestPointers(t *testing.T) {
	lane.Parallel(t)
	gcc, hotspots := need(t, "gcc"), build(t, "hotspots")
	for _, flags := range lane.Some([][]string{{"-O1"}, {"-O2", "-no-pie"}, {"-O2", "-fcf-protection=full", "-mno-red-zone"}, {"-O0"}}, 2) {
		program := compile(t, gcc, append(flags, "-pthread"), "pointers.c")
		for _, args := range [][]string{{"3000"}, {"100000", "timer"}, {"100", "steps"}} {
			ways := [][]string{{"--objects", "main"}, {"--objects", "main", "--lock"}}
			if args[len(args)-1] != "steps" { // pushf, where a threshold is reached, leaves a thread that a debugger steps stepping itself: then it may miss one
				ways = append(ways, []string{"--objects", "main", "--threshold", "10"})
			}
			for _, way := range ways {
				t.Run(strings.Join(append(append(flags, args...), way...), " "), func(t *testing.T) {
					t.Parallel()
					table := filepath.Join(t.TempDir(), "table")
					c := cmd(append(append(append([]string{hotspots, "run", "--blocks", "--edges", "--cache=false", "--summary", "0", "-o", table}, way...), "--", program), args...)...)
					r := run(t, c)
					if r.status != 0 || !strings.HasSuffix(r.stderr, " 0 wrong\n") {
						t.Fatalf("%+v", r)
					}
					got, want, unknown := noted(t, table, r.stdout)
					if len(want) < 100 {
						t.Fatalf("%d places and callees", len(want))
					}
					if way[len(way)-1] == "--lock" { // nothing is noted
						if len(got) > 0 || unknown == 0 {
							t.Errorf("%v, %d unknown", got, unknown)
						}
						return
					}
					for e, n := range want {
						if got[e] != n {
							t.Errorf("%v: %d calls, not %d", e, got[e], n)
						}
					}
					if unknown > 0 || len(got) != len(want) {
						t.Errorf("%d calls of unknown, %d edges, not %d", unknown, len(got), len(want))
					}
				})
			}
		}
	}
}

// TestPointersMany: where a call has more callees than there is room for, the rest is said to
// be unknown, and all together is right.
func TestPointersMany(t *testing.T) {
	lane.Parallel(t)
	const callees, rounds = 5000, 3
	source := filepath.Join(t.TempDir(), "many.c")
	text := fmt.Sprintf(`
#include <stdio.h>
__asm__(".text\n.set i, 0\n.rept %d\n.balign 16\n.if i == 0\n.globl first\n.type first, @function\nfirst:\n.endif\nmov $1, %%eax\nnop\nret\n.set i, i + 1\n.endr\n");
extern const char first[];
__attribute__((noipa)) static long each(long (*f)(void)) { return f() + 1; }
int main(void)
{
	long sum = 0;
	for (long i = 0; i < %d; i++)
		sum += each((long (*)(void))(first + i %% %d * 16));
	printf("%%ld\n", sum);
	return 0;
}
`, callees, callees*rounds, callees)
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program, table := filepath.Join(t.TempDir(), "many"), filepath.Join(t.TempDir(), "table")
	if r := run(t, cmd(need(t, "gcc"), "-O1", "-o", program, source)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	hotspots := build(t, "hotspots")
	r := run(t, cmd(hotspots, "run", "--blocks", "--edges", "--summary", "0", "-o", table, "--", program))
	if r.status != 0 || r.stdout != fmt.Sprintln(2*callees*rounds) {
		t.Fatalf("%+v", r)
	}
	known, unknown := uint64(0), uint64(0)
	for _, e := range readEdges(t, table) {
		if e.Caller.Name == "each" && e.Callee.Object == "" {
			unknown += e.Calls
		} else if e.Caller.Name == "each" {
			known += e.Calls
			if e.Calls != rounds {
				t.Fatalf("%+v", e)
			}
		}
	}
	if known == 0 || unknown == 0 || known+unknown != callees*rounds {
		t.Errorf("%d known, %d unknown, not %d", known, unknown, callees*rounds)
	}
	says := regexp.MustCompile(`unknown +to what is not known: more callees than there is room for`)
	if r := run(t, cmd(hotspots, "calls", table, "--function", "each")); !says.MatchString(r.stdout) {
		t.Errorf("%+v", r)
	}
}
