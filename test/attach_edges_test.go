package test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// edgesAre: a table has these calls by caller and callee, as sites.c lists them.
func edgesAre(t *testing.T, table, text string) {
	t.Helper()
	got, want := sitesOf(t, table, text)
	for e, n := range want {
		if got[e] != n {
			t.Errorf("%v: %d calls, not %d", e, got[e], n)
		}
	}
	if len(want) == 0 {
		t.Error("there are none")
	}
}

// TestAttachEdges: who calls whom is counted exactly, in a program that was attached to while
// nobody calls, and it is what it was when it is detached from while all call.
func TestAttachEdges(t *testing.T) {
	lane.Parallel(t)
	needPlain(t, "")
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "4", "forks", "signals")
	state, before := a.state(), a.quiet()
	table := a.attach("--edges")
	after := a.works(before)
	made := func(name string) uint64 { return after[name] - before[name] }
	edgesAre(t, table, fmt.Sprintf("work tiny call %d\nwork loops call %d\nwork spin call %d\nwork leaf call %d\nwork deep call %d\ndeep deep call %d\n",
		made("tiny"), made("loops"), made("spin"), made("leaf"), made("deep")/5, made("deep")/5*4))
	a.compare(before, after, nil, readReport(t, table))
	a.goOn()
	a.pausesAndGoesOn(table, table)
	for range lane.Of(2, 50) {
		a.detach()
		if now := a.state(); now != state {
			t.Errorf("something is left: %s", difference(state, now))
		}
		a.attach("--edges")
	}
	a.detach()
	a.end()
}

// TestRunStaticEdges: so it is in a static program, from its beginning.
func TestRunStaticEdges(t *testing.T) {
	lane.Parallel(t)
	needPlain(t, "")
	program := compile(t, need(t, "gcc"), []string{"-O2", "-static", "-pthread"}, "sites.c")
	for _, args := range [][]string{{"4", "20000"}, {"3", "777", "fork"}} {
		table := filepath.Join(t.TempDir(), "table")
		r := run(t, cmd(append([]string{build(t, "hotspots"), "run", "--strict", "--edges", "--summary", "0", "-o", table, "--", program}, args...)...))
		if r.status != 0 || r.stderr != "" {
			t.Fatalf("%s: %+v", strings.Join(args, " "), r)
		}
		edgesAre(t, table, r.stdout)
	}
}
