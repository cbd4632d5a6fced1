package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAttachThrows: who unwinds the stack from a handler finds what he would without, whatever the
// handler has interrupted: to throw, to end the thread, to look. A handler that returns is as good,
// and calls are counted once.
func TestAttachThrows(t *testing.T) {
	lane.Parallel(t)
	const times = 3000
	gxx := need(t, "g++")
	flags := []string{"-O1", "-fnon-call-exceptions", "-pthread"}
	cases := []struct{ compiled, run, attach []string }{
		{nil, nil, nil},
		{nil, []string{"elsewhere"}, nil},
		{nil, nil, []string{"--blocks"}},
		{nil, nil, []string{"--edges"}},
		{nil, []string{"elsewhere"}, []string{"--blocks", "--objects", "all"}},
		{[]string{"-static"}, nil, nil},
		{[]string{"-static"}, nil, []string{"--blocks"}},
	}
	for _, c := range lane.Some(cases, 1, 2) {
		t.Run(fmt.Sprint(c.compiled, c.run, c.attach), func(t *testing.T) {
			a := startAttached(t, append([]string{compile(t, gxx, append(c.compiled, flags...), "attachthrows.cpp")}, c.run...)...)
			does := func(what, want string) {
				t.Helper()
				fmt.Fprintln(a.to, what)
				a.expect(want)
			}
			all := func() {
				t.Helper()
				does(fmt.Sprint("faults ", times), fmt.Sprintf("%d caught, 0 other stacks", times))
				does(fmt.Sprint("repairs ", times), fmt.Sprintf("%d right", times))
				does("exits 30", "30 destroyed")
				does("alarms 100", "0 cut")
			}
			all()
			table := a.attach(c.attach...)
			all()
			a.detach()
			all()
			if n := readReport(t, table).calls(t, "strikes_at"); n != 2*times+30 {
				t.Errorf("%d calls, not %d", n, 2*times+30)
			}
			fmt.Fprintln(a.to, "storm")
			for range 3 {
				a.attach(c.attach...)
				time.Sleep(50 * time.Millisecond) // it is struck at both sides of either
				a.detach()
			}
			does("", "all caught")
			fmt.Fprintln(a.to, "\nend") // the line that has ended it is one of its own
			a.ends()
		})
	}
}
