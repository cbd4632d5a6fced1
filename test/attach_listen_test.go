package test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAttachListen: the counts of a program that was attached to are served as those of others are,
// from beside it, until it is detached from and they have been scraped.
func TestAttachListen(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "2")
	descriptors := a.descriptors()
	table := filepath.Join(t.TempDir(), "table.dynprof")
	r := a.hotspots("attach", "-o", table, "--listen", "127.0.0.1:0", "--linger", "1m")
	at := address(t, table)
	if r.status != 0 || !strings.HasSuffix(r.stderr, ", metrics at "+at+"\n") {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	last := scrapeAt(t, at)
	now := scrapeAt(t, at)
	now.monotone(t, last)
	a.asks("pause", table)
	a.quiet()
	servesAll(t, at, table)
	a.goOn()
	a.asks("resume", table)
	if now := a.descriptors(); !slices.Equal(now, descriptors) {
		t.Errorf("descriptors: %q, before: %q", now, descriptors)
	}
	a.detach()
	servesAll(t, at, table)
	closed(t, at)

	again := exec.Command(build(t, "hotspots"), "attach", "-o", table, "--for", "100ms", "--listen", at, "--linger", "1m", a.pid())
	var out strings.Builder
	again.Stdout, again.Stderr = &out, &out
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- again.Wait() }()
	scrapes := 0
	for going := true; going; {
		if _, err := scrapeOnce(at); err == nil {
			scrapes++
		}
		select {
		case err := <-ended:
			if going = false; err != nil || scrapes == 0 || !strings.Contains(out.String(), "tiny") {
				t.Errorf("%v, after %d scrapes: %s", err, scrapes, out.String())
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
	closed(t, at)
	a.end()
}

// servesAll: what the endpoint says is what the table says, into which nobody counts just now.
func servesAll(t *testing.T, at, table string) {
	t.Helper()
	if now, want := scrapeAt(t, at), readReport(t, table).TotalCalls; now.total() != float64(want) {
		t.Errorf("%v calls are served, the report has %d", now.total(), want)
	}
}

// TestAttachListenRefused: where metrics cannot be served, the process is not touched.
func TestAttachListenRefused(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "1")
	before := a.state()
	for _, row := range []struct {
		address, says string
		status        int
	}{{"somewhere:1", "no IP address", 2}, {"1.2.3.4:1", "--listen: 1.2.3.4:1: bind", 1}} {
		r := a.hotspots("attach", "--listen", row.address)
		oneLine(t, r.stderr, row.says, "")
		if now := a.state(); r.status != row.status || now != before {
			t.Errorf("%s: status %d; it was touched: %s", row.address, r.status, difference(before, now))
		}
	}
	a.end()
}

// TestRunStaticListen: a static program's counts are served by an endpoint, to the end.
func TestRunStaticListen(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	table := filepath.Join(t.TempDir(), "table.dynprof")
	program := compileWith(t, []string{"gcc", "-O1", "-static"}, "attached.c")
	a := converseAttached(t, exec.Command(build(t, "hotspots"), "run", "--strict", "--listen", "127.0.0.1:0", "--linger", "1m", "--summary", "0", "-o", table, "--", program, "2"))
	at := address(t, table)
	last := scrapeAt(t, at)
	now := scrapeAt(t, at)
	now.monotone(t, last)
	a.end()
	servesAll(t, at, table)
	closed(t, at)
}
