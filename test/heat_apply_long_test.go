//go:build long

package test

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAdviseApplyAlive: what is dead in the run that was counted, and not in the one that it is applied to, is given back
// when it is dead there; output that is another each time proves nothing; and another program is refused.
func TestAdviseApplyAlive(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-pthread", "-Wall", "-Werror"}, "heat_dead.c")
	counted, at := countedAt(t, cmd(program), "--heat", "--allocs", "--objects", "all")
	if counted.status != 7 || counted.stderr != "" {
		t.Fatalf("%+v", counted)
	}
	if a, r := applyTo(t, at, program, "r"); r.status != 0 || !a.Same || a.Again != 0 {
		t.Errorf("it is read again: %+v, %+v", a, r)
	}
	if a, r := applyTo(t, at, program, "p"); r.status != 0 || a.Same || !a.Varies {
		t.Errorf("its output varies: %+v, %+v", a, r)
	}
	for _, argv := range [][]string{{"/bin/true"}, {"sh", "-c", program}, {"no-such-program"}} {
		if _, r := applyTo(t, at, argv...); r.status == 0 || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q: %+v", argv, r)
		}
	}
	for _, wrong := range [][]string{{"--apply"}, {"--", program}} {
		if r := run(t, cmd(append([]string{build(t, "hotspots"), "advise", at}, wrong...)...)); r.status == 0 || strings.Count(r.stderr, "\n") > 2 {
			t.Errorf("%q: %+v", wrong, r)
		}
	}
}
