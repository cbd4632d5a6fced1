//go:build long

package test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestPlanningTerminal: of a program whose copies take seconds to plan the terminal says how far
// that is, and shows what it would without us in the end.
func TestPlanningTerminal(t *testing.T) {
	cc1 := strings.TrimSpace(run(t, cmd(need(t, "gcc"), "-print-prog-name=cc1")).stdout)
	without := sit(t, 100, 24, nil, cc1, "-quiet", "-version", "/dev/null", "-o", "/dev/null")
	without.sees("GGC heuristics")
	without.leaves(0)
	with := sit(t, 100, 24, nil, build(t, "hotspots"), "run", "--summary", "0", "--cache=false", "--blocks", "--edges", "--trips", "-o", filepath.Join(t.TempDir(), "table"), "--", cc1, "-quiet", "-version", "/dev/null", "-o", "/dev/null")
	select {
	case <-with.gone:
	case <-time.After(patience):
		t.Fatalf("it does not end\n%s", with.screen())
	}
	with.sees("GGC heuristics")
	if raw := with.sent(); !regexp.MustCompile(`dynprof: planning, \d+ % `).MatchString(raw) {
		t.Errorf("%q", raw)
	}
	if got, want := with.screen(), without.screen(); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}
