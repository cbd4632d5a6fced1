package test

import (
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestFirstEnded: a process whose first thread has ended is counted as before, as long
// as others go on: libraries that come, threads, text that changes, filters, locks.
func TestFirstEnded(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "firstended.c")
	libraries := []string{compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c"), compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")}
	inVariants(t, cmd(program, "work", libraries[0], libraries[1]), func(t *testing.T, r *report) {
		for name, want := range map[string]uint64{"step": 60*100 + 100 + 3*100, "hooked": 1} {
			if n := r.calls(t, name); n != want {
				t.Errorf("%s: %d calls, not %d", name, n, want)
			}
		}
		for _, l := range libraries {
			if n := r.late(l, "late_step"); n != 50 {
				t.Errorf("late_step of %s: %d calls, not 50", l, n)
			}
		}
		if f := r.named(t, "hooked"); f.Reason != "text-changed" {
			t.Errorf("hooked is not given back: %+v", f)
		}
		if r.ObjectsMissed != 0 || r.Dispatched != 0 || r.Stopped {
			t.Errorf("missed: %+v; withdrawn: %d; stopped: %t", r.Missed, r.Dispatched, r.Stopped)
		}
	})
}
