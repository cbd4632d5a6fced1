package test

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAliased: a program that maps its text executable once more does the same.
// What runs by the alias is the file's code, which does not count, or, where a
// copy takes the text's place, the text's.
func TestAliased(t *testing.T) {
	lane.Parallel(t)
	for _, row := range []struct {
		how   string
		flags string // of hotspots run
		leaf  uint64 // twice calls it, too
		keep  uint64
	}{
		{"file", "", 2000, 0},
		{"image", "", 2000, 1000},
		{"place", "", 3000, 1500},
		{"place", "--threshold 100", 3000, 1500},
		{"copy", "--skip ^leaf$", 0, 0}, // its bytes are used as data
	} {
		for _, pie := range []string{"-pie", "-no-pie"} {
			t.Run(strings.Join([]string{row.how, row.flags, pie}, " "), func(t *testing.T) {
				p := compile(t, need(t, "gcc"), []string{"-O2", pie, "-fno-reorder-functions"}, "aliased.c")
				c := cmd(p, row.how)
				without := run(t, c)
				with, r := counted(t, c, strings.Fields(row.flags)...)
				same(t, without, with)
				if n := r.calls(t, "leaf"); without.status != 0 || n != row.leaf {
					t.Errorf("leaf: %d calls, not %d: %s", n, row.leaf, without.stderr)
				}
				if n := r.calls(t, "keep"); n != row.keep {
					t.Errorf("keep: %d calls, not %d", n, row.keep)
				}
			})
		}
	}
}
