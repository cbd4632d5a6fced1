package test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestAttachLeaderless: a program whose first thread has ended, and is a zombie while others go on.
func TestAttachLeaderless(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "2", "births", "leaves")
	until(t, func() bool { return a.status().State == 'Z' }, "the first thread does not end")
	for range lane.Of(2, 20) {
		table := filepath.Join(t.TempDir(), "table")
		before := a.quiet()
		if r := a.hotspots("attach", "-o", table); r.status != 0 {
			t.Fatalf("attach: status %d: %s", r.status, r.stderr)
		}
		a.goOn()
		time.Sleep(20 * time.Millisecond)
		a.compare(before, a.quiet(), nil, readReport(t, table))
		a.detach()
		os.Remove(table)
		a.goOn()
	}
	a.end()
}

// TestAttachWaits: threads in system calls that show who stops them are not told EINTR.
func TestAttachWaits(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attachwaits.c"))
	for range lane.Of(2, 30) {
		os.Remove(a.attach())
		a.detach()
	}
	a.to.Close()
	if told, err := io.ReadAll(a.from); err != nil || len(told) > 0 {
		t.Errorf("threads came back from these calls: %s (%v)", told, err)
	}
	a.ends()
}
