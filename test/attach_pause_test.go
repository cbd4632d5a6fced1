//go:build long

package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// withFunctions is a program of ours with so many functions more.
func withFunctions(t *testing.T, n int, file string) (path string) {
	t.Helper()
	return compile(t, need(t, "gcc"), []string{"-O1", fmt.Sprintf("-DFUNCTIONS=%d", n)}, file, "functions.S")
}

// TestAttachFetched: the pages of a program with many functions are copied in stops of their own,
// and that hotspots is killed in one of them changes nothing.
func TestAttachFetched(t *testing.T) {
	strace := need(t, "strace")
	p := withFunctions(t, 12_000, "attached.c")
	attachAndDetach(t, p, "4", "births", "signals")

	a := startAttached(t, p, "4")
	before, log := a.state(), filepath.Join(t.TempDir(), "log")
	if r := run(t, cmd(strace, "-f", "-qq", "-o", log, "-e", "trace=ptrace", build(t, "hotspots"), "attach", "-o", filepath.Join(t.TempDir(), "table"), a.pid())); r.status != 0 {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	if stops := strings.Count(read(t, log), "PTRACE_SEIZE, "+a.pid()+","); stops < 2 {
		t.Errorf("it was stopped %d times", stops)
	}
	a.goesOn()
	a.detach()
	killed := 0
	for n := 1; n < 300; n += 47 {
		p := startAttached(t, p, "4")
		before := p.state()
		r := run(t, cmd(killedAt(t, strace, "pwrite64", n, "attach", "-o", filepath.Join(t.TempDir(), "table"), p.pid())...))
		p.goesOn()
		if d := p.hotspots("detach"); d.status != 0 && !strings.Contains(d.stderr, "is not attached to") {
			t.Fatalf("detach, after %d: status %d: %s", n, d.status, d.stderr)
		}
		if now := p.state(); now != before {
			t.Errorf("after %d something is left: %s", n, difference(before, now))
		}
		p.endsInterrupted()
		if r.status != 0 { // its threads' writes are counted apart
			killed++
		}
	}
	if killed == 0 {
		t.Error("hotspots was never killed")
	}
	if now := a.state(); now != before {
		t.Errorf("something is left: %s", difference(before, now))
	}
	a.endsInterrupted()
}

// TestAttachPause tells for how long a thread that spins did not run, of some attaches and
// detaches to processes that were not attached to before. What it may be is said in
// docs/attach.md; here only the machine decides.
func TestAttachPause(t *testing.T) {
	const functions, times = 48_000, 11
	p := withFunctions(t, functions, "attachpause.c")
	for _, threads := range []int{10, 1000} {
		pauses := map[string][]time.Duration{}
		for range times {
			a := startAttached(t, p, strconv.Itoa(threads))
			longest := func() time.Duration {
				fmt.Fprintln(a.to)
				n, err := strconv.Atoi(a.line())
				if err != nil {
					t.Fatal(err)
				}
				return time.Duration(n)
			}
			for _, step := range []struct {
				what string
				do   func()
			}{{"attach", func() { a.attach() }}, {"detach", a.detach}} {
				longest()
				step.do()
				pauses[step.what] = append(pauses[step.what], longest())
			}
			a.finish()
		}
		for what, all := range pauses {
			slices.Sort(all)
			t.Logf("%s: %d functions, %d threads: median %v, %v to %v", what, functions, threads, all[len(all)/2], all[0], all[len(all)-1])
		}
	}
}
