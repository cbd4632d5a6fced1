package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestFirstEnded: a process whose first thread has ended is counted as before, as long
// as others go on: libraries that come, threads, text that changes, filters, locks.
func TestFirstEnded(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "firstended.c")
	libraries := []string{compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c"), compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")}
	inVariants(t, cmd(program, "work", libraries[0], libraries[1]), func(t *testing.T, r *report) {
		for name, want := range map[string]uint64{"step": 60*100 + 100 + 3*100, "hooked": 1} {
			if n := r.calls(t, name); n != want {
				t.Errorf("%s: %d calls, not %d", name, n, want)
			}
		}
		for _, l := range libraries {
			if n := r.late(l, "late_step"); n != 50 {
				t.Errorf("late_step of %s: %d calls, not 50", l, n)
			}
		}
		if f := r.named(t, "hooked"); f.Reason != "text-changed" {
			t.Errorf("hooked is not given back: %+v", f)
		}
		if r.ObjectsMissed != 0 || r.Dispatched != 0 || r.Stopped {
			t.Errorf("missed: %+v; withdrawn: %d; stopped: %t", r.Missed, r.Dispatched, r.Stopped)
		}
	})
}

// TestFirstEndedRuns: who asks for it is told that it runs, and it can be paused.
func TestFirstEndedRuns(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "firstended.c")
	table := filepath.Join(t.TempDir(), "table.dynprof")
	c := exec.Command(build(t, "hotspots"), "run", "--control", "-o", table, "--summary", "0", "--", program, "serve")
	c.Stderr = os.Stderr
	to, from := converse(t, c)
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	says := func(want string) {
		t.Helper()
		if line, err := from.ReadString('\n'); line != want+"\n" {
			t.Fatalf("the program says %q: %v", line, err)
		}
	}
	steps := func(n int) {
		t.Helper()
		fmt.Fprintln(to, n)
		says("done")
	}
	hotspots := func(args ...string) {
		t.Helper()
		if r := run(t, cmd(append([]string{build(t, "hotspots")}, args...)...)); r.status != 0 || r.stderr != "" {
			t.Errorf("%v: status %d: %s", args, r.status, r.stderr)
		}
	}
	says("ready")
	steps(10)
	hotspots("pause", table)
	steps(10)
	hotspots("resume", table)
	steps(5)
	r := readReport(t, table)
	if n := r.calls(t, "step"); n != 15 || r.Status != "running" {
		t.Errorf("%d steps, not 15; the program is %q", n, r.Status)
	}
	byPid := run(t, cmd(build(t, "hotspots"), "report", fmt.Sprint(r.Pid)))
	if byPid.status != 0 {
		t.Errorf("report of process %d: %s", r.Pid, byPid.stderr)
	}
	to.Close()
	c.Wait()
	if r = readReport(t, table); r.Status != "exited" || c.ProcessState.ExitCode() != 5 {
		t.Errorf("at the end the program is %q, status %d", r.Status, c.ProcessState.ExitCode())
	}
}
