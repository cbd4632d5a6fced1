package test

import (
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestNarrow: a program that allows itself little address space, or data, has it, with
// --control, too: the reserve for libraries that come later takes none, and the room of the
// discard row is no data.
func TestNarrow(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "narrow.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	for _, row := range []struct {
		space   string
		more    []string
		counted bool // the library
	}{{"60", nil, false}, {"400", nil, true}, {"4", []string{"data"}, true}} {
		t.Run(row.space, func(t *testing.T) {
			inVariants(t, cmd(append([]string{program, row.space, library}, row.more...)...), func(t *testing.T, r *report) {
				if n := r.calls(t, "step"); n != 1000 {
					t.Errorf("step: %d calls", n)
				}
				if row.counted && (r.late(library, "late_step") != 300 || r.ObjectsMissed != 0) {
					t.Errorf("late_step: %d calls; missed: %+v", r.late(library, "late_step"), r.Missed)
				}
				if !row.counted {
					r.missing(t, library, "no-planner")
				}
			})
		})
	}
}
