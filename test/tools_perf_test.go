//go:build long

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

// TestPerfCallers: perf record -g walks through counted functions as through
// others.
func TestPerfCallers(t *testing.T) {
	perf := need(t, "perf")
	p := compile(t, need(t, "gcc"), []string{"-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"}, "callers.c")
	dir := t.TempDir()
	chains := func(name string, env ...string) (output string, samples, whole int) {
		data := filepath.Join(dir, name)
		args := append([]string{"record", "-q", "-g", "-e", "cpu-clock", "-F", "2000", "-o", data, "env"}, env...)
		out, err := exec.Command(perf, append(args, p)...).Output()
		if err != nil {
			t.Skipf("perf cannot record on this machine: %v", err)
		}
		script, err := exec.Command(perf, "script", "-i", data, "-F", "ip,sym").Output()
		if err != nil {
			t.Fatal(err)
		}
		for sample := range strings.SplitSeq(string(script), "\n\n") {
			var names []string
			for line := range strings.Lines(sample) {
				if f := strings.Fields(line); len(f) == 2 {
					names = append(names, f[1])
				}
			}
			if len(names) > 0 && (names[0] == "leaf" || names[0] == "[unknown]") { // its body may be in the stub
				samples++
				if strings.HasPrefix(strings.Join(names[1:], " "), "middle outer main ") {
					whole++
				}
			}
		}
		return string(out), samples, whole
	}
	without, samples, whole := chains("without")
	if samples < 100 || whole < samples*9/10 {
		t.Fatalf("without the library %d of %d chains of callers are whole: this is no test", whole, samples)
	}
	with, samples, whole := chains("with", "LD_PRELOAD="+build(t, "libdynprof.so"), "DYNPROF_OUTPUT="+filepath.Join(dir, "table"))
	if with != without {
		t.Errorf("it says %q, without the library %q", with, without)
	}
	if samples < 100 || whole < samples*9/10 {
		t.Errorf("%d of %d chains of callers are whole", whole, samples)
	}
	if n := readReport(t, filepath.Join(dir, "table")).calls(t, "leaf"); n != 500_000 {
		t.Errorf("%d calls", n)
	}
	t.Logf("%d of %d chains", whole, samples)
}
