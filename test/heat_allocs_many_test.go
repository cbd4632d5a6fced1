//go:build long

package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestHeatAllocsMany: of more blocks than there is room for, at a time or given back between two looks, all are in
// sums, and how many nothing else is known of is told.
func TestHeatAllocsMany(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror"}, "heat_allocs.c")
	const n = 3_000_000
	c := cmd(program, fmt.Sprint(n))
	r, table := countedAt(t, c, "--heat=pages", "--allocs", "--objects", "main")
	all := allocationsOf(t, table)
	var unheld, known, blocks uint64
	text := run(t, cmd(build(t, "hotspots"), "heat", table, "--objects")).stdout
	for line := range strings.Lines(text) {
		if strings.Contains(line, "found no room") {
			fmt.Sscanf(strings.ReplaceAll(line, ",", ""), "%d blocks", &unheld)
		}
	}
	for _, s := range all.Sites {
		known, blocks = known+s.Known, blocks+s.Blocks
	}
	const places = 1 << 21
	if got := all.of("many"); got.Blocks != n+1 || got.Bytes != n*(24+8) || unheld < n-places || unheld > n-places*9/10 {
		t.Errorf("%+v, and %d for which there was no room", got, unheld)
	}
	if known+unheld+all.Allocs.Untold+all.Allocs.Short+all.Allocs.Dropped != blocks {
		t.Errorf("%d blocks, %d known, %d without room, %+v", blocks, known, unheld, *all.Allocs)
	}
	if !strings.Contains(r.stdout, fmt.Sprintf("site many %d ", n+1)) {
		t.Errorf("%s", r.stdout)
	}
}
