package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// What traps.c calls: each() in all, of which in which place its comments tell.
const (
	trapEach  = 1000 + 2*5000 + 1000 + 4*1000 + 2*100 + 10 + 5*10 + 2 + 30 + trapSeen
	trapSeen  = 104 // runs of the program's own SIGTRAP handler
	trapVfork = 1
)

// TestTraps: functions that only a trap serves are counted exactly wherever
// they are called, in threads on several cores and with all signals blocked, in
// children, in handlers and on an alternate stack; and what the program itself
// does with SIGTRAP is as ever.
func TestTraps(t *testing.T) {
	lane.Parallel(t)
	for _, row := range []string{"gcc -O1 -no-pie", "gcc -O2 -fPIE -pie", "clang -O1"} {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			compiler, flags, _ := strings.Cut(row, " ")
			p := compile(t, need(t, compiler), strings.Fields(flags), "traps.c", "traps.S")
			without := run(t, cmd(p))
			if !strings.Contains(without.stdout, "int3, ignored: signal 5, exit 0\n") {
				t.Fatalf("the program does not run to its end:\n%s", without.stdout)
			}
			for _, flags := range [][]string{nil, {"--threshold", "100"}, {"--objects", "all"}} {
				with, r := counted(t, cmd(p), append(flags, "--allow-traps")...)
				same(t, without, with)
				for name, n := range map[string]uint64{
					"trap_ret": trapEach + trapVfork, "trap_arrival": trapEach, "trap_loop": trapEach, "leaf": 7 * trapEach,
				} {
					f := r.named(t, name)
					if f.Calls != n {
						t.Errorf("%v: %s: %d calls, not %d", flags, name, f.Calls, n)
					}
					if trap := name != "leaf"; (f.Tactic == "trap") != trap {
						t.Errorf("%v: %s is counted by %s %s", flags, name, f.Tactic, f.Reason)
					}
				}
			}
		})
	}
}

// TestTrapsCoverage: coverage --system says beforehand what traps would serve.
func TestTrapsCoverage(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "traps.c", "traps.S")
	for _, row := range []struct {
		flags []string
		left  string
		traps int
	}{
		{nil, "map[branch-into-window:1 entry-loop:1 too-short:1]", 0},
		{[]string{"--allow-traps"}, "map[]", 3},
	} {
		args := append([]string{build(t, "hotspots"), "coverage", "--system", "--format", "json"}, row.flags...)
		out := run(t, cmd(append(args, p)...))
		var c struct{ Tactics, Uncounted map[string]int }
		if err := json.Unmarshal([]byte(out.stdout), &c); err != nil {
			t.Fatal(err, out.stderr)
		}
		if left := fmt.Sprint(c.Uncounted); left != row.left || c.Tactics["trap"] != row.traps {
			t.Errorf("%v: %d traps, left %s; not %d and %s", row.flags, c.Tactics["trap"], left, row.traps, row.left)
		}
	}
	if out := run(t, cmd(build(t, "hotspots"), "coverage", "--allow-traps")); out.status != 2 || !strings.Contains(out.stderr, "--system") {
		t.Errorf("without --system: status %d, %s", out.status, out.stderr)
	}
}

// TestTrapsOnRequest: without --allow-traps the same functions are left, for a
// reason, and their loops and calls run as ever.
func TestTrapsOnRequest(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "traps.c", "traps.S")
	without := run(t, cmd(p))
	c := cmd(p)
	for _, value := range []string{"", "0"} {
		c.env = []string{"DYNPROF_ALLOW_TRAPS=" + value}
		with, r := counted(t, c)
		same(t, without, with)
		for name, reason := range map[string]string{
			"trap_ret": "too-short", "trap_arrival": "branch-into-window", "trap_loop": "entry-loop",
		} {
			if f := r.named(t, name); f.Tactic != "none" || f.Reason != reason {
				t.Errorf("%s: %s (%s) instead of %s", name, f.Tactic, f.Reason, reason)
			}
		}
	}
	c.env = []string{"DYNPROF_ALLOW_TRAPS=1"}
	with, r := counted(t, c)
	same(t, without, with)
	if f := r.named(t, "trap_loop"); f.Calls != trapEach {
		t.Errorf("by the variable: %d calls of trap_loop, not %d", f.Calls, trapEach)
	}
}

// TestTrapsLate: traps in objects that are loaded while the program runs.
func TestTrapsLate(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "late.c")
	var libraries []string
	for range 6 {
		libraries = append(libraries, compile(t, gcc, []string{"-O1", "-shared", "-fPIC", "-Wl,-Bsymbolic"}, "trapslib.c", "traps.S"))
	}
	for _, row := range []struct {
		mode      string
		libraries int
		steps     uint64 // of each library
	}{
		{"once", 1, 1500}, {"namespace", 1, 500}, {"fork", 1, 350}, {"threads", 6, 3000},
	} {
		args := append([]string{program, row.mode}, libraries[:row.libraries]...)
		without := run(t, cmd(args...))
		for _, flags := range [][]string{{"--allow-traps"}, {"--allow-traps", "--objects", "all"}} {
			with, r := counted(t, cmd(args...), flags...)
			if strings.HasPrefix(with.stderr, "calls busy_step") {
				with.stderr = without.stderr // how often is chance
			}
			same(t, without, with)
			for _, l := range libraries[:row.libraries] {
				for _, name := range []string{"trap_ret", "trap_arrival", "trap_loop"} {
					if n := r.late(l, name); n != row.steps {
						t.Errorf("%s %v: %s: %d calls, not %d", row.mode, flags, name, n, row.steps)
					}
				}
			}
		}
	}
}

// TestTrapsOfDebian: programs some of whose own functions only a trap serves.
func TestTrapsOfDebian(t *testing.T) {
	lane.Parallel(t)
	source := write(t, filepath.Join(t.TempDir(), "x.c"), trapsC, 0o600)
	for _, row := range [][]string{
		{"clang", "-O2", "-g", "-S", "-o", "-", source},
	} {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			c := cmd(append([]string{need(t, row[0])}, row[1:]...)...)
			without := run(t, c)
			with, r := counted(t, c, "--allow-traps")
			same(t, without, with)
			trapped, calls := 0, uint64(0)
			for _, f := range r.Functions {
				if f.Tactic == "trap" {
					trapped++
					calls += f.Calls
				}
			}
			if calls == 0 {
				t.Errorf("%d functions with traps, and none was called: it shows nothing", trapped)
			}
		})
	}
}

const trapsC = `
struct pair { int a, b; };
int f(struct pair *x, int n) {
	int r = 0;
	switch (n) {
	case 1: return x->a;
	case 2: return 5;
	case 3: r = 7; /* fall through */
	default: for (int i = 0; i < n; i++) r += x[i].b;
	}
	return r;
}
`
