package test

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestNoTSC: where reading the time-stamp counter is forbidden hot events get their
// time all the same, and what is loaded is counted.
func TestNoTSC(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "textchangelib.c")
	p := compile(t, gcc, []string{"-O1"}, "tsc.c")
	inVariants(t, cmd(p, library), func(t *testing.T, r *report) {
		for _, name := range []string{"step", "strict", "late_key"} {
			if f := r.last(t, name, p, library); f.Calls != 2000 {
				t.Errorf("%s: %d calls, not 2000", name, f.Calls)
			}
		}
	})
}

// TestNoCPUID: where the program has forbidden itself to ask the CPU what it is
// (ARCH_SET_CPUID), what is loaded is counted. A planner that died of that was "no-planner".
func TestNoCPUID(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "textchangelib.c")
	p := compile(t, gcc, []string{"-O1"}, "nocpuid.c")
	if out := run(t, cmd(p, library)).stdout; strings.HasPrefix(out, "cannot") {
		t.Skip("this CPU cannot refuse to tell what it is")
	}
	inVariants(t, cmd(p, library), func(t *testing.T, r *report) {
		if f := r.last(t, "late_key", library); f.Calls != 2000 {
			t.Errorf("late_key: %d calls, not 2000", f.Calls)
		}
	})
}

// TestFloatFaults: where the program has its floating-point operations trap, what is
// loaded is counted, and its rounding is its own behind that. A planner that was
// interrupted by the first inexact result of its own was "no-planner".
func TestFloatFaults(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "textchangelib.c")
	p := compile(t, gcc, []string{"-O1"}, "floatfaults.c")
	inVariants(t, cmd(p, library), func(t *testing.T, r *report) {
		if f := r.last(t, "late_key", library); f.Calls != 2000 {
			t.Errorf("late_key: %d calls, not 2000", f.Calls)
		}
	})
}

// TestSignature: what clang's -fsanitize=function puts at an entry stays there, for
// the callers that read it. (Without, a call by the wrong type is not reported.)
func TestSignature(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "signature.c")
	const times = 1000 // with 1, 2, 3, 4, 5, 1, ...: to the sum of 3 each
	inVariants(t, cmd(p, "1000"), func(t *testing.T, r *report) {
		for name, want := range map[string]uint64{
			"tiny": 3 * times, "behind_endbr": times, "loop": times, "to_start": times, "to_entry": times,
			"caller": times, "recursive": 3 * times, "tail": times,
		} {
			if f := r.last(t, name, p); f.Calls != want {
				t.Errorf("%s: %d calls, not %d: %s %s", name, f.Calls, want, f.Tactic, f.Reason)
			}
		}
	})
}
