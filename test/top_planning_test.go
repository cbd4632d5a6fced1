package test

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestPlanningTold: how far planning is stands on the terminal of who waits for it, from the second
// second on, four times a second, and is gone before the program runs; nowhere else, and nobody
// waits for the terminal.
func TestPlanningTold(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O1", "-I../libdynprof/resident", "-I../libdynprof"}, "bar.c")
	const program = "the program\r\n"
	told := func(percent string) string { return "\rdynprof: planning, " + percent + " % " }
	for how, want := range map[string]string{
		"asked":   told("40") + told("80") + told("100") + "\r" + strings.Repeat(" ", 26) + "\r" + program,
		"unasked": program, "tostop": program, "stopped": program, "background": "",
	} {
		t.Run(how, func(t *testing.T) {
			s := sit(t, 80, 24, nil, p, how)
			if want != "" {
				s.sees("^the program")
			}
			s.leaves(0)
			if got := s.sent(); got != want {
				t.Errorf("%q, not %q", got, want)
			}
		})
	}
	if r := run(t, cmd(p, "asked")); r.stdout != "the program\n" || r.stderr != "" {
		t.Errorf("without a terminal: %q, %q", r.stdout, r.stderr)
	}
}
