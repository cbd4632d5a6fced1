package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Programs that use the GS segment themselves. usesgs.S makes one of any: it is
// never called.

// locked fails unless the run was counted with lock because of the program.
func locked(t *testing.T, r *report) {
	t.Helper()
	if want := r.Program + " uses the GS segment"; r.Lock != want || r.Stopped {
		t.Errorf("counted with lock: %q, not %q; stopped: %t", r.Lock, want, r.Stopped)
	}
}

// TestSharedExact: threads pinned to different cores and trees of processes count
// in one row, and none is lost.
func TestSharedExact(t *testing.T) {
	lane.Parallel(t)
	twoCores(t)
	for _, row := range []struct {
		source string
		args   []string
	}{
		{"threads.c", []string{"one 2000000", "many 1000000", "churn 1500", "crowd 1000", "storm 2000"}},
		{"forks.c", []string{""}},
	} {
		p := compile(t, need(t, "gcc"), []string{"-O2"}, row.source, "usesgs.S")
		for i, args := range row.args {
			c := cmd(append([]string{p}, strings.Fields(args)...)...)
			for _, flags := range lane.Turn([][]string{nil, {"--objects", "all"}, {"--threshold", "1000"}}, i) {
				t.Run(strings.Join(append(slices.Clone(flags), row.source, args), " "), func(t *testing.T) {
					with, r := counted(t, c, flags...)
					if with.status != 0 || with.stderr != "" {
						t.Errorf("status %d: %s", with.status, with.stderr)
					}
					locked(t, r)
					selfCounting(t, comparison{exempt: untallied("uses_gs")}, with, r)
				})
			}
		}
	}
}

// TestSharedThreshold: one event, when all threads together have called so often.
func TestSharedThreshold(t *testing.T) {
	lane.Parallel(t)
	twoCores(t)
	const n, threads = 60, 4
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "threshold.c", "usesgs.S")
	for what, most := range map[string]uint64{"lockstep": n + threads, "in_turn": n, "freely": 3 * n * threads} {
		t.Run(what, func(t *testing.T) {
			with, r, list := countedWithEvents(t, cmd(p, what, fmt.Sprint(n)), n)
			locked(t, r)
			selfCounting(t, comparison{exempt: untallied("uses_gs")}, with, r)
			events := eventsOf(t, r, list)
			for i := range 12 {
				name := fmt.Sprint("step_", i)
				if e, ok := events[name]; !ok || e.Calls < n || e.Calls > most || e.Pid == 0 || e.Tid == 0 {
					t.Errorf("%s: has an event %t, at %d calls, not %d to %d, of %d/%d", name, ok, e.Calls, n, most, e.Pid, e.Tid)
				}
			}
		})
	}
}

// TestSharedThresholdForks: one event for a whole tree of processes.
func TestSharedThresholdForks(t *testing.T) {
	lane.Parallel(t)
	twoCores(t)
	const n = 15000
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "forks.c", "usesgs.S")
	with, r, list := countedWithEvents(t, cmd(p), n)
	locked(t, r)
	selfCounting(t, comparison{exempt: untallied("uses_gs")}, with, r)
	events := eventsOf(t, r, list)
	if e := events["step"]; len(events) != 1 || e.Calls < n || e.Pid == 0 || e.Pid != e.Tid {
		t.Errorf("%d functions with events; step: %+v", len(events), e)
	}
}

// TestSharedCanary: the locked stubs, too, change nothing that the program sees.
func TestSharedCanary(t *testing.T) {
	lane.Parallel(t)
	for _, row := range lane.Some([]string{"-no-pie", "-pie -fPIE"}, 1) {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			b := buildCanaries(t, strings.Fields(row), false, "testdata/usesgs.S")
			b.compare(t, cmd(b.program), lane.Some(crossed, 0, 2))
			b.compare(t, cmd(b.program, "aligned"), []uint64{0, 5})
			b.compare(t, cmd(b.program, "watched"), []uint64{0})
			b.compare(t, cmd(b.program, "watched", "slow-paths"), []uint64{5})
		})
	}
}

// TestSharedStruck: handlers of signals that strike in locked stubs.
func TestSharedStruck(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-rdynamic", "-fno-omit-frame-pointer"}, "struck.c", "usesgs.S")
	without := run(t, cmd(program))
	for _, flags := range lane.Some([][]string{nil, {"--objects", "all", "--threshold", "7"}}, 1) {
		t.Run(filepath.Join(flags...), func(t *testing.T) {
			t.Parallel()
			with, r := counted(t, cmd(program), flags...)
			same(t, without, with)
			locked(t, r)
			for name, want := range map[string]uint64{"fetch": 2000, "fetch_long": 2000, "undefined": 1000} {
				if n := r.calls(t, name); n != want {
					t.Errorf("%s: %d calls, not %d", name, n, want)
				}
			}
		})
	}
}

// TestSharedLate: the stubs of libraries that come later count in the same row,
// and those may use GS, too.
func TestSharedLate(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "late.c", "usesgs.S")
	plain := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	user := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c", "usesgs.S")
	for _, mode := range []string{"once", "namespace", "fork"} {
		for _, library := range []string{plain, user} {
			without := run(t, cmd(program, mode, library))
			for _, flags := range [][]string{nil, {"--objects", "all"}, {"--objects", "all", "--threshold", "50"}} {
				t.Run(strings.Join(append(slices.Clone(flags), mode), " "), func(t *testing.T) {
					with, r := counted(t, cmd(program, mode, library), flags...)
					same(t, without, with)
					locked(t, r)
					if n, want := r.late(library, "late_step"), map[string]uint64{"once": 1500, "namespace": 500, "fork": 350}[mode]; n != want {
						t.Errorf("late_step: %d calls, not %d", n, want)
					}
					if n := r.late(library, "late_made"); n != 14 {
						t.Errorf("late_made: %d calls, not 14", n)
					}
				})
			}
		}
	}
}

// TestTaken: a program that takes GS where nobody could foresee it is counted until
// then, and does what it would have done; as long as it does not, GS looks free.
func TestTaken(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "takesgs.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "takesgslib.c")
	for _, how := range []string{"made", "syscall", "late"} {
		c := cmd(program, how, library)
		without := run(t, c)
		for _, flags := range [][]string{nil, {"--objects", "all"}, {"--objects", "main"}, {"--objects", "all", "--threshold", "100"}} {
			t.Run(strings.Join(append(slices.Clone(flags), how), " "), func(t *testing.T) {
				with, r := counted(t, c, flags...)
				same(t, without, with)
				if n := r.calls(t, "step"); n != 1000 {
					t.Errorf("step: %d calls, not 1000", n)
				}
				if !r.Stopped || r.Lock != "" {
					t.Errorf("stopped: %t; counted with lock: %q", r.Stopped, r.Lock)
				}
			})
		}
		t.Run("--lock "+how, func(t *testing.T) {
			with, r := counted(t, c, "--lock", "--objects", "all")
			same(t, without, with)
			if n := r.calls(t, "step"); n != 1000+500+50+100 {
				t.Errorf("step: %d calls, not 1650", n)
			}
			if r.Stopped || r.Lock != "as asked for" {
				t.Errorf("stopped: %t; counted with lock: %q", r.Stopped, r.Lock)
			}
		})
	}
}
