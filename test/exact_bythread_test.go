package test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestByThread: what each thread and process counted, where rows have had
// several owners; all of it adds up.
func TestByThread(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "owners.c")
	table := filepath.Join(t.TempDir(), "table")
	if r := run(t, cmd(build(t, "hotspots"), "run", "-o", table, "--summary", "0", "--", p)); r.status != 0 || r.stderr != "" {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	type line struct {
		Pid, Tid, Threads int
		Calls             uint64
	}
	read := func(by string) (lines []line, total uint64) {
		t.Helper()
		out := run(t, cmd(build(t, "hotspots"), "report", "--by", by, "--format", "json", table))
		var r struct {
			TotalCalls uint64 `json:"total_calls"`
			Threads    []line
			Processes  []line
		}
		if err := json.Unmarshal([]byte(out.stdout), &r); err != nil {
			t.Fatalf("%v: %s", err, out.stderr)
		}
		return append(r.Threads, r.Processes...), r.TotalCalls
	}
	threads, total := read("thread")
	sum, ofThreads := uint64(0), map[uint64]int{}
	for _, l := range threads {
		sum += l.Calls
		ofThreads[l.Calls]++
		if l.Pid == 0 || l.Tid == 0 {
			t.Errorf("a thread without a name: %+v", l)
		}
	}
	if sum != total {
		t.Errorf("threads: %d of %d calls", sum, total)
	}
	for n := uint64(1); n <= 60; n++ { // owners.c: the n-th thread calls step 100*n times, and itself once
		if ofThreads[100*n+1] != 1 {
			t.Errorf("%d threads with %d calls", ofThreads[100*n+1], 100*n+1)
		}
	}
	processes, total := read("process")
	sum = 0
	ofProcesses := map[uint64]int{}
	for _, l := range processes {
		sum += l.Calls
		ofProcesses[l.Calls]++
	}
	if sum != total || len(processes) != 6 {
		t.Errorf("%d processes: %d of %d calls", len(processes), sum, total)
	}
	for n := uint64(1); n <= 5; n++ { // the n-th child calls step 10000*n times
		if ofProcesses[10000*n] != 1 {
			t.Errorf("%d processes with %d calls: %+v", ofProcesses[10000*n], 10000*n, processes)
		}
	}
	r := run(t, cmd(build(t, "hotspots"), "report", "--by", "thread", "--filter", "step", table))
	oneLine(t, r.stderr, "--filter", "")
}
