package test

import (
	"fmt"
	"path/filepath"
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

// TestNarrowChildren: children that limit their address space find what they find without, however many
// there are, and whatever is mapped of ours for all of them.
func TestNarrowChildren(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-pthread"}, "limitedchildren.c")
	const children, finds = 60, 5
	inVariants(t, cmd(program), func(t *testing.T, r *report) {
		for name, want := range map[string]uint64{"session": children, "finds": finds * children} {
			if n := r.calls(t, name); n != want {
				t.Errorf("%s: %d calls, not %d", name, n, want)
			}
		}
	})
	t.Run("blocks", func(t *testing.T) {
		without := run(t, cmd(program))
		with, _ := countedAt(t, cmd(program), "--blocks", "--edges")
		same(t, without, with)
	})
}

// TestNarrowFollowed: where all that is executed is counted, too, that has the limit that it was given.
func TestNarrowFollowed(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-pthread"}, "heat_limited.c")
	with := run(t, cmd(build(t, "hotspots"), "run", "--summary=0", "--follow-exec", "-o", filepath.Join(t.TempDir(), "%p"), "--", program))
	same(t, run(t, cmd(program)), with)
}

// TestNarrowAttach: so it is while a program is attached to, before and behind that; and limits are its own
// when it is detached from.
func TestNarrowAttach(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-pthread"}, "limitedchildren.c"), "converse")
	does := func(what, want string) {
		t.Helper()
		fmt.Fprintln(a.to, what)
		a.expect(want)
	}
	const right, limited = "60 right", "400 500, some 1, much 0"
	does("children", right)
	table := a.attach()
	does("children", right)
	does("limit", limited)
	a.detach()
	does("is limited", limited)
	if n := readReport(t, table).calls(t, "session"); n != 60 {
		t.Errorf("%d calls, not 60", n)
	}
	a.attach()
	does("is limited", limited)
	a.detach()
	does("is limited", limited)
	fmt.Fprintln(a.to, "end")
	a.ends()
}
