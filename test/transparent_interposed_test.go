package test

import (
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestInterposed: functions of libc that the program defines itself are not called
// by us, neither in the program nor in the twin.
func TestInterposed(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	p := compile(t, gcc, []string{"-O1", "-w", "-fno-builtin", "-rdynamic"}, "interposes.c")
	inVariants(t, cmd(p, library), func(t *testing.T, r *report) {
		for _, name := range []string{"step", "late_step"} {
			if f := r.last(t, name, p, library); f.Calls != 2000 {
				t.Errorf("%s: %d calls, not 2000", name, f.Calls)
			}
		}
	})
}
