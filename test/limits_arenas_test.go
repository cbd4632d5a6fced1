package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestArenas: of more arenas than lists of them had room for once (1,024 for
// handlers, 512 for pausing), the last is known to all.
func TestArenas(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	program := compile(t, gcc, []string{"-O1", "-fPIE", "-I../libdynprof"}, "arenas.c")
	type row struct {
		mode  string
		flags []string
		loads uint64
		calls uint64 // of late_step, behind the loads
	}
	for _, row := range lane.Some([]row{
		{"sees", nil, 1100, 3},
		{"sees", variants[3], 1100, 3},
		{"sees", []string{"--lock"}, 200, 3},
		{"pauses", nil, lane.Of[uint64](150, 600), 100},
		{"ends", []string{"--threshold", "3000"}, 1100, 0},
	}, 2, 3) {
		t.Run(row.mode+" "+strings.Join(row.flags, " "), func(t *testing.T) {
			t.Parallel()
			r, all := counted(t, cmd(program, row.mode, library, fmt.Sprint(row.loads)), row.flags...)
			ok(t, r)
			if n := all.late(library, "late_step"); n != row.loads+row.calls {
				t.Errorf("late_step: %d calls, not %d; missed: %+v", n, row.loads+row.calls, all.Missed)
			}
		})
	}
}

// TestReplacedText: where a library was closed, and the program has put code of its
// own, handlers go to that.
func TestReplacedText(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	program := compile(t, gcc, []string{"-O1", "-no-pie", "-fPIE", "-I../libdynprof"}, "arenas.c") // absolute addresses
	c := cmd(program, "replaces", library, "3")
	ok(t, run(t, c))
	inVariants(t, c, func(*testing.T, *report) {})
}

// TestHandlers: more signal handlers than have entries of their own see every
// instruction of what they interrupt.
func TestHandlers(t *testing.T) {
	lane.Parallel(t)
	c := cmd(compile(t, need(t, "gcc"), []string{"-O1"}, "handlers.c"))
	ok(t, run(t, c))
	inVariants(t, c, func(*testing.T, *report) {})
	r, _ := counted(t, c, "--allow-traps")
	ok(t, r)
}

// TestUserThreads: handlers that save contexts and install others, on one kernel
// thread or two, are counted exactly; so are contexts that rt_sigreturn resumes.
func TestUserThreads(t *testing.T) {
	lane.Parallel(t)
	const limit = 400000
	gcc := need(t, "gcc")
	plain := compile(t, gcc, []string{"-O1"}, "userthreads.c")
	fronts := compile(t, gcc, []string{"-O1", "-fPIE", "-DFRONTS", "-I../libdynprof"}, "userthreads.c")
	exact := func(t *testing.T, all *report) {
		t.Helper()
		for name, want := range map[string]uint64{"leaf": 10 * limit, "inner": 5 * limit, "carries": 5 * limit, "turns": 5 * limit / 8, "work": 5} {
			if n := all.calls(t, name); n != want {
				t.Errorf("%s: %d calls, not %d", name, n, want)
			}
		}
	}
	for _, args := range [][]string{{"1", "400000"}, {"2", "400000"}, {"2", "400000", "by hand"}} {
		c := cmd(append([]string{plain}, args...)...)
		ok(t, run(t, c))
		inVariants(t, c, exact)
		for _, flag := range []string{"--lock", "--allow-traps", "--blocks", "--edges"} {
			r, all := counted(t, c, flag)
			ok(t, r)
			exact(t, all)
		}
		r, all := counted(t, cmd(append([]string{fronts}, args...)...))
		ok(t, r)
		exact(t, all)
	}
}
