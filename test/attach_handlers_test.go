package test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAttachHandlers: handlers see the program's addresses also if they are about to begin when it
// is attached to: at their first instruction, or when that of a second signal is through. So does
// that of the second, which has interrupted the entry to the first's, and whatever strikes a thread
// that was in one while the program was detached from.
func TestAttachHandlers(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "attachhandlers.c")
	says := func(a *attached, how, command, want string) {
		t.Helper()
		fmt.Fprintln(a.to, command)
		if got := a.line(); got != want {
			t.Errorf("%s: it says %q behind %s, not %q", how, got, command, want)
		}
	}
	const one, two = "looked 1 wrong 0", "looked 2 wrong 0"
	for _, flags := range lane.Some([][]string{nil, {"--blocks"}}, 1) {
		a := startAttached(t, p)
		for _, how := range []string{"first", "once", "two", "one"} {
			wants, goesOn := two, true // by itself, when it is detached from
			if how == "first" || how == "once" {
				wants, goesOn = one, false
			}
			says(a, how, how, "ready")
			a.attach(append(flags, "--only", "spins")...)
			says(a, how, "release", wants)

			says(a, how, how, "ready")
			if !goesOn {
				says(a, how, "release", wants)
			}
			a.detach()
			says(a, how, "release", wants)
		}
		fmt.Fprintln(a.to, "end")
		a.ends()
	}
	for _, others := range []string{"0", "600"} { // than have entries of their own
		a := converseAttached(t, exec.Command(build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "table"), "--only", "spins", "--", p, others))
		for _, how := range []string{"two", "one"} {
			says(a, others+" others, "+how, how, "ready")
			says(a, others+" others, "+how, "release", two)
		}
		fmt.Fprintln(a.to, "end")
		a.ends()
	}
}

// TestAttachFaults: a thread goes on where a handler has it go that a fault has called before the
// program is attached to.
func TestAttachFaults(t *testing.T) {
	lane.Parallel(t)
	const cycles = 8
	p := compile(t, need(t, "gcc"), []string{"-O1", "-pthread"}, "attachfaults.c")
	cases := []struct{ arguments, flags []string }{{nil, nil}, {nil, []string{"--blocks"}}, {[]string{"own"}, nil}, {[]string{"own"}, []string{"--blocks"}}}
	for _, c := range lane.Some(cases, 1, 3) {
		a := startAttached(t, append([]string{p}, c.arguments...)...)
		for range cycles {
			a.attach(append(c.flags, "--only", "^(first|second)$")...)
			a.detach()
		}
		fmt.Fprintln(a.to, "end")
		if got := a.line(); got != "0 wrong" {
			t.Errorf("%q: it says %q", c, got)
		}
		a.ends()
	}
}
