//go:build long

package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestRegionsSites: of more instructions than there is room for the accesses of the others are
// counted, and a line says so.
func TestRegionsSites(t *testing.T) {
	const sites, room = 300_000, 1 << 18
	program := compile(t, need(t, "gcc"), []string{fmt.Sprintf("-DSITES=%d", sites)}, "regionsites.S")
	r, table := countedAt(t, cmd(program), "--objects", "main", "--region", "counter")
	if r.status != 0 {
		t.Fatalf("%+v", r)
	}
	text := run(t, cmd(build(t, "hotspots"), "regions", table))
	out := run(t, cmd(build(t, "hotspots"), "regions", table, "--format", "json"))
	var l regionList
	if err := json.Unmarshal([]byte(out.stdout), &l); err != nil || len(l.Regions) != 1 {
		t.Fatalf("%v: %+v", err, out)
	}
	// main reads it once.
	if all := l.Regions[0].Accesses + l.Total.Untold; all != sites+1 || l.Total.Untold < sites-room || l.Total.Untold > sites-room+room/50 || l.Total.Lost != 0 {
		t.Errorf("%d accesses and %+v", l.Regions[0].Accesses, l.Total)
	}
	if !strings.Contains(text.stdout, "accesses were not recorded: there were too many instructions") {
		t.Errorf("nothing says so:\n%.2000s", text.stdout)
	}
}
