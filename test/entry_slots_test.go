package test

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// slots is a program with a library that calls itself by the PLT.
func slots(t *testing.T, library, program string) command {
	t.Helper()
	gcc := need(t, "gcc")
	lib := compile(t, gcc, strings.Fields("-O2 -shared -fPIC "+library), "slotlib.c")
	return cmd(compile(t, gcc, append(strings.Fields("-O2 -rdynamic "+program), "testdata/slots.c", lib)), "1000")
}

// callsOf is the calls of functions of that name, in whatever object.
func callsOf(r *report, name string) (n uint64) {
	for _, f := range r.Functions {
		if f.Name == name {
			n += f.Calls
		}
	}
	return n
}

const closedSlots = "-Wl,-z,now,-z,relro"

// TestDirectCallsBySlot: calls by the PLT go to the stub of the library's own function, if
// that is who they come to, and nobody is going to change it.
func TestDirectCallsBySlot(t *testing.T) {
	lane.Parallel(t)
	const usual, inFront = "6066000", "999000"
	for _, row := range []struct{ library, program, flags, sum, leads string }{
		{closedSlots, "", "", usual, "elsewhere elsewhere"},
		{closedSlots + " -fcf-protection -Wl,-z,ibtplt", "", "", usual, "elsewhere elsewhere"},
		{closedSlots, "", "--threshold 50", usual, "elsewhere elsewhere"},
		{closedSlots, "", "--objects all", usual, "elsewhere elsewhere"},
		{closedSlots, "", "--lock", usual, "elsewhere elsewhere"},
		{closedSlots, "", "--control", usual, "elsewhere elsewhere"},
		{closedSlots, "", "--keep-calls", usual, "plt plt"},
		{closedSlots, "", "--skip ^slot_target", usual, "plt plt"},
		{closedSlots, "", "--translator -", usual, "plt plt"},
		{"-Wl,-z,lazy", "", "", usual, "plt plt"},
		{"-Wl,-z,now,-z,norelro", "", "", usual, "plt plt"},
		{closedSlots, "-DIN_FRONT", "", inFront, "plt plt"},
	} {
		t.Run(row.library+" "+row.program+" "+row.flags, func(t *testing.T) {
			r, report := counted(t, slots(t, row.library, row.program), strings.Fields(row.flags)...)
			if want := row.sum + " " + row.leads + "\n"; r.stdout != want || r.stderr != "" || r.status != 0 {
				t.Errorf("status %d: %s%s, not %s", r.status, r.stdout, r.stderr, want)
			}
			if n := callsOf(report, "slot_calls"); n != 1000 {
				t.Errorf("%d calls of slot_calls", n)
			}
			if n := callsOf(report, "slot_target"); n != 2000 && !strings.Contains(row.flags, "skip") {
				t.Errorf("%d calls of slot_target", n)
			}
		})
	}
}

// TestDirectCallsSlotsHooked: who opens the slots and changes one is passed by all calls,
// in each of a program's starts, and all is counted on.
func TestDirectCallsSlotsHooked(t *testing.T) {
	lane.Parallel(t)
	c := slots(t, closedSlots, "")
	c.args = append(c.args, "hook")
	for _, flags := range []string{"", "--lock", "--control", "--threshold 50"} {
		r, report := counted(t, c, strings.Fields(flags)...)
		if r.stdout != "6066000 elsewhere elsewhere\n4006066000 plt plt\n" || r.stderr != "" || r.status != 0 {
			t.Errorf("%s: status %d: %s%s", flags, r.status, r.stdout, r.stderr)
		}
		for name, want := range map[string]uint64{"slot_target": 4000, "slot_calls": 2000, "slot_jumps": 2000, "hooked": 2000} {
			if n := callsOf(report, name); n != want {
				t.Errorf("%s: %d calls of %s, not %d", flags, n, name, want)
			}
		}
	}
}

// TestDirectCallsSlotsCached: a plan of an earlier start knows nothing of who has put a
// function of theirs in front in this one.
func TestDirectCallsSlotsCached(t *testing.T) {
	lane.Parallel(t)
	c := slots(t, closedSlots, "")
	front := compile(t, need(t, "gcc"), []string{"-O2", "-shared", "-fPIC"}, "slotfront.c")
	for _, by := range []string{"run", "preload"} {
		p := newPlanned(t, c, by)
		p.warm(t)
		for _, row := range []struct{ preload, want string }{
			{"", "6066000 elsewhere elsewhere\n"}, {front, "999000 plt plt\n"}, {"", "6066000 elsewhere elsewhere\n"},
		} {
			q := *p
			if row.preload != "" && by == "run" {
				q.env = append(q.env[:len(q.env):len(q.env)], "LD_PRELOAD="+row.preload)
			} else if row.preload != "" {
				continue
			}
			r, rep, _, _ := q.start(t)
			if r.stdout != row.want || r.stderr != "" || r.status != 0 {
				t.Errorf("%s, %q in front: status %d: %s%s, not %s", by, row.preload, r.status, r.stdout, r.stderr, row.want)
			}
			if n := callsOf(rep, "slot_calls"); n != 1000 {
				t.Errorf("%d calls of slot_calls", n)
			}
		}
	}
}
