package test

import (
	"fmt"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// System calls of 32-bit programs, which 64-bit ones make by int $0x80.

// TestOldBirths: a process that is made so counts exactly, since all share a row.
func TestOldBirths(t *testing.T) {
	lane.Parallel(t)
	for _, level := range lane.Some([]string{"-O0", "-O2"}, 1) { // the number comes from memory, or is loaded in front
		program := compile(t, need(t, "gcc"), []string{level}, "int80.c")
		inVariants(t, cmd(program), func(t *testing.T, r *report) {
			if want := program + " may make threads and processes by int $0x80"; r.Lock != want || len(r.OldBirths) > 0 {
				t.Errorf("counted with lock: %q, not %q; %v", r.Lock, want, r.OldBirths)
			}
			if n := r.calls(t, "step"); n != 2000000 {
				t.Errorf("step: %d calls", n)
			}
		})
	}
}

// TestOldBirthsLate: a library that does and comes later is named, unless all share
// a row in any case.
func TestOldBirthsLate(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "late.c")
	library := compile(t, need(t, "gcc"), []string{"-O2", "-shared", "-fPIC", "-DLIBRARY"}, "int80.c")
	without := run(t, cmd(program, "once", library))
	for flags, named := range map[string]string{"--threshold=1000000000": "[" + library + "]", "--lock": "[]"} {
		with, r := counted(t, cmd(program, "once", library), flags)
		same(t, without, with)
		if fmt.Sprint(r.OldBirths) != named {
			t.Errorf("%s: the report names %v, not %s", flags, r.OldBirths, named)
		}
		if n := r.late(library, "step"); n == 0 || named == "[]" && n%2000000 != 0 {
			t.Errorf("%s: step: %d calls", flags, n)
		}
	}
}

// TestOldCalls: such calls have numbers of their own: none is taken for another.
func TestOldCalls(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), nil, "oldcalls.S")
	inVariants(t, cmd(program), func(t *testing.T, r *report) {
		if n := r.calls(t, "main"); n != 1 || r.Lock != "" {
			t.Errorf("main: %d calls; counted with lock: %q", n, r.Lock)
		}
	})
}
