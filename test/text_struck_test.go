package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestStruck: handlers of signals that strike in a stub see the function that it
// stands for: they recover from faults at known addresses, unwind, cancel and
// jump away, with the same results.
func TestStruck(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-rdynamic", "-fno-omit-frame-pointer"}, "struck.c")
	without := run(t, cmd(program))
	if without.status != 0 {
		t.Fatalf("%+v", without)
	}
	for _, flags := range lane.Some([][]string{nil, {"--objects", "all"}, {"--objects", "all", "--threshold", "7"}}, 2) {
		t.Run(filepath.Join(flags...), func(t *testing.T) {
			t.Parallel()
			with, r := counted(t, cmd(program), flags...)
			same(t, without, with)
			for name, want := range map[string]uint64{"fetch": 2000, "fetch_long": 2000, "undefined": 1000} {
				if n := r.calls(t, name); n != want {
					t.Errorf("%s: %d calls, not %d", name, n, want)
				}
			}
		})
	}
}

// TestSteps: a backtrace in a handler comes from main at every instruction on the way
// into the kernel and back, over thresholds, and to the end of threads.
func TestSteps(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-rdynamic"}, "steps.c")
	library := compile(t, need(t, "gcc"), []string{"-O1", "-shared", "-fPIC", "-nostartfiles", "-Dconstructor=used"}, "latelib.c") // glibc 2.36 finds no frames in constructors
	without := run(t, cmd(program, library))
	if without.status != 0 || strings.Count(without.stdout, ": stepped, lost 0\n") != 66 {
		t.Fatalf("%+v", without)
	}
	for _, flags := range append(variants, []string{"--objects", "all", "--threshold", "7"}) {
		t.Run(filepath.Join(flags...), func(t *testing.T) {
			t.Parallel()
			with, r := counted(t, cmd(program, library), flags...)
			same(t, without, with)
			if n := r.calls(t, "by_number_fixed"); n != 2 {
				t.Errorf("by_number_fixed: %d calls, not 2", n)
			}
		})
	}
}
