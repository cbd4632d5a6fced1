package test

import (
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestResident: parts of what runs in the program, each with a program of its own
// around it: what they do where their room ends.
func TestResident(t *testing.T) {
	lane.Parallel(t)
	for _, unit := range []string{"lost.c", "patience.c"} {
		t.Run(unit, func(t *testing.T) {
			t.Parallel()
			p := compile(t, need(t, "gcc"), []string{"-O1", "-I../libdynprof/resident"}, unit)
			if r := run(t, cmd(p)); r.status != 0 || r.stdout+r.stderr != "" {
				t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
			}
		})
	}
}
