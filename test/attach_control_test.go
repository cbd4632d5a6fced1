package test

import (
	"encoding/csv"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// asks runs a command on a table or a program that was attached to, and needs no agent.
func (a *attached) asks(command, of string) {
	a.t.Helper()
	if r := run(a.t, cmd(build(a.t, "hotspots"), command, of)); r.status != 0 || r.stderr != "" {
		a.t.Fatalf("%s: status %d: %s", command, r.status, r.stderr)
	}
}

// pausesAndGoesOn: nothing is counted while counting is paused, and as many calls as are made
// before and behind it.
func (a *attached) pausesAndGoesOn(table, of string) {
	a.t.Helper()
	a.asks("pause", of)
	before := a.quiet()
	first := readReport(a.t, table)
	a.works(before)
	if last := readReport(a.t, table); last.TotalCalls != first.TotalCalls {
		a.t.Errorf("%d calls are counted while counting is paused", last.TotalCalls-first.TotalCalls)
	}
	a.goOn()
	a.asks("resume", table)
	a.countsAll(table)
}

// TestAttachControl: what is asked of a program that was attached to needs no agent, while all its
// threads run, and leaves nothing behind.
func TestAttachControl(t *testing.T) {
	lane.Parallel(t)
	needPlain(t, "switched")
	for _, how := range lane.Some([][]string{{"gcc", "-O1"}, {"gcc", "-O1", "-static"}, {"musl-gcc", "-O1"}}, 0) {
		t.Run(strings.Join(how, " "), func(t *testing.T) {
			a := startAttached(t, compileWith(t, how, "attached.c"), "4", "forks", "signals")
			before := a.state()
			table := a.attach()
			for range lane.Of(3, 10) {
				a.pausesAndGoesOn(table, a.pid())
			}
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() { a.asks([]string{"pause", "resume"}[i%2], table) })
			}
			all.Wait()
			a.asks("reset", table)
			a.asks("pause", table)
			a.detach() // what is paused stays so in its table
			if now := a.state(); now != before {
				t.Errorf("something is left: %s", difference(before, now))
			}
			refusedControl(t, table, "resume", "nobody takes requests for this program")
			a.countsAll(a.attach())
			a.detach()
			a.quiet()
			a.goOn()
			a.end()
		})
	}
}

// TestAttachControlKilled: hotspots is killed while it has counting paused, which is done for all
// functions or for none.
func TestAttachControlKilled(t *testing.T) {
	lane.Parallel(t)
	needPlain(t, "switched")
	strace := need(t, "strace")
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "4")
	before := a.state()
	for _, call := range lane.Some([]string{"ptrace", "pwrite64", "pread64"}, 0) {
		for n := 1; !t.Failed(); n += lane.Of(151, 7) {
			a.attach()
			what := []string{"pause", "resume"}[n%2]
			if what == "resume" {
				a.asks("pause", a.pid())
			}
			r := run(t, cmd(killedAt(t, strace, call, n, what, a.pid())...))
			a.goesOn()
			d := a.hotspots("detach")
			if d.status != 0 {
				t.Fatalf("detach, after %s %d: status %d: %s", call, n, d.status, d.stderr)
			}
			if now := a.state(); now != before {
				t.Errorf("after %s %d something is left, detach: %q: %s", call, n, d.stderr, difference(before, now))
			}
			if r.status == 0 {
				break
			}
		}
	}
	a.endsInterrupted()
}

// TestRunStaticControl: a static program's counting is paused like that of others, without the
// agent that those have.
func TestRunStaticControl(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	table := filepath.Join(t.TempDir(), "table.dynprof")
	program := compileWith(t, []string{"gcc", "-O1", "-static"}, "attached.c")
	a := converseAttached(t, exec.Command(build(t, "hotspots"), "run", "--control", "--summary", "0", "-o", table, "--", program, "4", "births", "forks", "signals"))
	a.pausesAndGoesOn(table, a.pid())
	a.asks("pause", table)
	a.end()
	if last := readReport(t, table); last.Status != "exited" {
		t.Errorf("it has %s", last.Status)
	}
}

// TestAttachGoControl: so is a Go program's, while goroutines run and are preempted.
func TestAttachGoControl(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, goStatic(t, "testdata/gobusy"))
	table := a.attach()
	for range lane.Of(1, 10) {
		a.pausesAndGoesOn(table, table)
	}
	a.detach()
	a.end()
}

// TestAttachAgain: the counts of a second attach are added to those of the first in the table that
// both name, if they are of the same functions; else they go into one of their own.
func TestAttachAgain(t *testing.T) {
	lane.Parallel(t)
	needPlain(t, "")
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "2")
	table := filepath.Join(t.TempDir(), "table.dynprof")
	attach := func(says string, flags ...string) {
		t.Helper()
		if r := a.hotspots(append([]string{"attach", "-o", table}, flags...)...); r.status != 0 || !strings.Contains(r.stderr, says) {
			t.Fatalf("attach: status %d: %s", r.status, r.stderr)
		}
	}
	first := a.quiet()
	attach("is counted: " + table)
	for range 3 {
		a.goOn()
		time.Sleep(10 * time.Millisecond)
		second := a.quiet()
		a.compare(first, second, nil, readReport(t, table))
		a.detach()
		a.goOn()
		time.Sleep(10 * time.Millisecond)
		missed := a.quiet()
		for name := range first {
			first[name] += missed[name] - second[name]
		}
		attach("is counted again: "+table, "--threshold", "1000000000")
	}
	all := readReport(t, table)
	if threads := byThread(t, table); threads != all.TotalCalls {
		t.Errorf("%d calls by thread, %d in all", threads, all.TotalCalls)
	}
	if others, _ := filepath.Glob(filepath.Join(filepath.Dir(table), "*")); len(others) != 1 {
		t.Errorf("there are %q", others)
	}
	a.detach()
	attach("are not gone on with: other functions are counted now", "--skip", "^leaf$")
	a.detach()
	a.asks("reset", table)
	attach("are not gone on with: it was reset")
	a.detach()
	if r := a.hotspots("attach"); r.status != 0 || strings.Contains(r.stderr, "again") {
		t.Errorf("without a name: %s", r.stderr)
	}
	a.detach()
	a.goOn()
	a.end()
}

// byThread is the sum of the calls of all threads.
func byThread(t *testing.T, table string) (sum uint64) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "report", "--by", "thread", "--format", "csv", table))
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	at := slices.Index(rows[0], "calls")
	for _, row := range rows[1:] {
		n, _ := strconv.ParseUint(row[at], 10, 64)
		sum += n
	}
	return sum
}
