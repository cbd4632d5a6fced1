//go:build long

package test

import "testing"

// TestRegionsWatched: a signal handler sees the same at every instruction, those that record
// accesses to the stack included.
func TestRegionsWatched(t *testing.T) {
	const stack = "0x7ffff0000000+0xffff000" // and libraries, without randomization
	b := buildCanaries(t, []string{"-pie", "-fPIE"}, false)
	c := cmd(b.program, "watched", "slow-paths")
	c.before = []string{need(t, "setarch"), "-R"}
	b.compare(t, c, []uint64{0}, "--region", stack)
	_, table := countedAt(t, c, "--region", stack)
	if l := regionsOf(t, table); len(l.Regions) != 1 || l.Regions[0].Accesses == 0 {
		t.Errorf("nothing was recorded: %+v", l)
	}
}
