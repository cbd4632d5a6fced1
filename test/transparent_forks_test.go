package test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestForksInterruptNobody: the end of a child, which nobody asked to be told of, and signals
// that are ignored do not end the system calls of other threads while one forks.
func TestForksInterruptNobody(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "forkinterrupts.c")
	for i, args := range [][]string{nil, {"handler"}, {"ignored"}, {"inherited"}} {
		ways := [][]string{nil, {"--cache=false"}, {"--objects", "all"}, {"--lock"}, {"--threshold", "10", "--control"}, {"--blocks"}}
		for _, flags := range lane.Turn(ways, i) {
			c := cmd(slices.Concat([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "table")}, flags, []string{"--", program}, args)...)
			if slices.Contains(args, "inherited") {
				c = cmd(append([]string{"env", "--ignore-signal=USR1"}, c.args...)...)
			}
			if r := run(t, c); r.status != 0 || r.stdout != "0 interrupted\n" {
				t.Errorf("%v %v: %+v", flags, args, r)
			}
		}
	}
}
