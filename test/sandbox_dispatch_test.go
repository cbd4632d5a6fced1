package test

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestDispatch: a program that has its system calls dispatched (Syscall User
// Dispatch) makes the same ones at the same addresses as without the library. It is
// counted until then.
func TestDispatch(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	p := compile(t, gcc, []string{"-O1", "-pthread"}, "dispatch.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	const uncertain = 0
	for _, row := range []struct {
		how      string
		calls    uint64 // of step
		everyWay bool
	}{
		{"gated", 1000, true},
		{"addresses", 1000, true},
		{"libc", 1000, false},
		{"inclusive", 1000, false},
		{"own", 1000, false},
		{"mdwe", 1000, false},
		{"others", 3000, false}, // the parent is counted on
		{"threads", uncertain, false},
		{"filter", uncertain, false}, // nothing can be given back
	} {
		t.Run(row.how, func(t *testing.T) {
			c := cmd(p, row.how, library)
			without := run(t, c)
			if without.status != 3 {
				t.Skipf("not on this kernel: %+v", without)
			}
			check := func(t *testing.T, r *report) {
				if n := r.calls(t, "step"); row.calls != uncertain && n != row.calls {
					t.Errorf("step: %d calls, not %d", n, row.calls)
				}
				text := run(t, cmd(build(t, "hotspots"), "report", r.table)).stdout
				if r.Dispatched != 1 || !strings.Contains(text, "turned Syscall User Dispatch on") {
					t.Errorf("the report does not say that one process does it: %d\n%s", r.Dispatched, text)
				}
			}
			if row.everyWay {
				inVariants(t, c, check)
				return
			}
			with, r := counted(t, c, "--objects", "all", "--threshold", "1000", "--control", "--keep-calls")
			same(t, without, with)
			check(t, r)
		})
	}
}

// TestTrapped: a handler to which a filter leaves system calls is told libc's
// addresses of them, and may answer each.
func TestTrapped(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "trapped.c")
	inVariants(t, cmd(p), func(t *testing.T, r *report) {
		if n := r.calls(t, "step"); n != 2008 {
			t.Errorf("step: %d calls, not 2008", n)
		}
	})
}
