package test

import (
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestEvict: a neighbour's instructions give way to an island, and run as
// before.
func TestEvict(t *testing.T) {
	lane.Parallel(t)
	for _, row := range []string{"-no-pie", "-pie"} {
		p := compile(t, need(t, "gcc"), []string{"-O1", "-fPIE", row}, "evict.c", "evict.S")
		without := run(t, cmd(p))
		for _, flags := range [][]string{nil, {"--threshold", "100"}} {
			with, r := counted(t, cmd(p), flags...)
			same(t, without, with)
			loops := uint64(0) // each call of evict_loop goes round so often
			for i := range 500 {
				loops += uint64(max(i%7, 1))
			}
			for name, want := range map[string]uint64{
				"evict_loop": 500, "evict_wall_before": 500, "evict_wall_behind": 500, "evict_leaf": 500*16 + loops,
			} {
				if n := r.calls(t, name); n != want {
					t.Errorf("%s %v: %s: %d calls, not %d", row, flags, name, n, want)
				}
			}
			for _, f := range r.of("") {
				if f.Name == "evict_loop" && f.Tactic != "evict" {
					t.Errorf("%s: evict_loop is counted by %s: the fixture shows nothing", row, f.Tactic)
				}
			}
		}
	}
}
