package test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestEmulators: under valgrind and qemu-user no planner is made, and the line says
// why. Where exec is followed the emulator is counted itself.
func TestEmulators(t *testing.T) {
	lane.Parallel(t)
	for _, row := range []struct{ emulator, why string }{
		{"valgrind -q --tool=none", "it runs in valgrind"},
		{"qemu-x86_64", "it runs in an emulator (qemu-user)"},
	} {
		t.Run(row.emulator, func(t *testing.T) {
			args := append(strings.Fields(row.emulator), need(t, "false"))
			need(t, args[0])
			c := cmd(args...)
			without := run(t, c)
			for _, objects := range []string{"", "all"} {
				c.env = []string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_FOLLOW_EXEC=1", "DYNPROF_OBJECTS=" + objects,
					"DYNPROF_OUTPUT=" + filepath.Join(t.TempDir(), "table.%p")}
				with := run(t, c)
				if want := "dynprof: " + args[len(args)-1] + ": not counted: " + row.why + "\n"; !strings.HasSuffix(with.stderr, want) {
					t.Errorf("stderr is %q, not %q", with.stderr, want)
				} else {
					with.stderr = strings.TrimSuffix(with.stderr, want)
				}
				same(t, without, with)
			}
		})
	}
}

// TestValgrindOutside: a tool of valgrind, which is a static program, is not counted from outside:
// code of the program that it translates is mapped as its own is.
func TestValgrindOutside(t *testing.T) {
	lane.Parallel(t)
	valgrind := []string{need(t, "valgrind"), "-q", "--tool=none"}
	c := cmd(append(valgrind, need(t, "false"))...)
	without := run(t, c)
	with := run(t, cmd(append([]string{build(t, "hotspots"), "run", "--follow-exec", "--summary", "0", "-o", filepath.Join(t.TempDir(), "%p"), "--"}, c.args...)...))
	if strings.Count(with.stderr, "valgrind") != 2 { // its tool, and the program that this runs
		t.Errorf("stderr is %q", with.stderr)
	}
	with.stderr = without.stderr
	same(t, without, with)

	program := compile(t, need(t, "gcc"), []string{"-O1"}, "novdso.c")
	a := startAttached(t, append(valgrind, program, "moved")...)
	if r := a.hotspots("attach", "-o", filepath.Join(t.TempDir(), "t")); r.status != 1 || !strings.Contains(r.stderr, "runs in valgrind") {
		t.Errorf("attach: %+v", r)
	}
	fmt.Fprintln(a.to, "call")
	a.line()
	fmt.Fprintln(a.to, "end")
	a.ends()
}
