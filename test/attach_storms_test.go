package test

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAttachStorms: children that share their parent's memory until they execute something, trees
// of forks, libraries that come and go, and threads by the hundred (a thousand are in TestAttachPause).
func TestAttachStorms(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O1", "-DLOADS"}, "attached.c")
	for _, args := range lane.Some([][]string{{"2", "vforks", "loads"}, {"2", "trees", "births", "forks", "signals"}, {"200"}, {"64", "births", "vforks", "trees", "signals"}}, 0, 1) {
		t.Run(strings.Join(args, " "), func(t *testing.T) { attachAndDetach(t, append([]string{p}, args...)...) })
	}
}
