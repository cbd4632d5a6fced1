package test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestPlannerEnds: a planner that is done, and has ended, when the program asks whether it has died:
// between when that looked and when it asks. strace makes it late there each time.
func TestPlannerEnds(t *testing.T) {
	lane.Parallel(t)
	needFile(t, "/usr/bin/python3.11")
	dir := t.TempDir()
	table, log := filepath.Join(dir, "table"), filepath.Join(dir, "log")
	preload := []string{"-E", "LD_PRELOAD=" + build(t, "libdynprof.so"), "-E", "DYNPROF_OBJECTS=all", "-E", "DYNPROF_CACHE=0", "-E", "DYNPROF_OUTPUT=" + table}
	args := append([]string{need(t, "strace"), "-f", "-qq", "-o", log, "-e", "trace=wait4", "-e", "inject=wait4:delay_enter=500000"}, preload...)
	r := run(t, cmd(append(args, "/usr/bin/python3.11", "-S", "-c", "print(7)")...))
	if r.status != 0 || r.stdout != "7\n" || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	asked, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if late := regexp.MustCompile(`WNOHANG\|__WALL, NULL\) = \d+ \(DELAYED\)`); !late.Match(asked) {
		t.Errorf("it did not ask late: %s", asked)
	}
	if readReport(t, table).TotalCalls == 0 {
		t.Error("nothing is counted")
	}
}
