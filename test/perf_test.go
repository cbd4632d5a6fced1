package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPerfMap: perf names the stubs in which a program spends its time.
func TestPerfMap(t *testing.T) {
	perf := need(t, "perf")
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "threads.c")
	table := filepath.Join(t.TempDir(), "table")
	data := filepath.Join(t.TempDir(), "perf.data")
	record := exec.Command(perf, "record", "-q", "-e", "cpu-clock", "-F", "10000", "-o", data,
		build(t, "hotspots"), "run", "--perf-map", "--summary", "0", "-o", table, "--", p, "one", "20000000")
	if out, err := record.CombinedOutput(); err != nil {
		t.Skipf("perf cannot record on this machine: %v %s", err, out)
	}
	defer os.Remove(fmt.Sprintf("/tmp/perf-%d.map", readReport(t, table).Pid))
	out, err := exec.Command(perf, "report", "--stdio", "-i", data, "--sort", "symbol").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "[dynprof]") {
		t.Errorf("perf report names no stub:\n%s", out)
	}
}
