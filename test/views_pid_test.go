package test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestReportOfEndedRun: a shell finds what hotspots run has left by its number, $!, in the default
// directory, also where other programs were executed.
func TestReportOfEndedRun(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range []string{"", "--linger 1s", "--follow-exec"} {
		c := cmd("/bin/sh", "-c", build(t, "hotspots")+" run "+flags+" --objects all -- /bin/sh -c '/bin/true; /bin/false; exit 3' & wait $!; "+build(t, "hotspots")+" report $! --top 1")
		c.env = []string{"XDG_RUNTIME_DIR=" + t.TempDir()}
		r := run(t, c)
		if r.status != 0 || !strings.Contains(r.stdout, "dash (pid ") || !strings.Contains(r.stdout, "exited with status 3: ") {
			t.Errorf("%q: %+v", flags, r)
		}
	}
}

// TestReportOfPid: a program is found by the number that a shell has of hotspots run, too,
// is said to be paused when it is, and names its threads.
func TestReportOfPid(t *testing.T) {
	lane.Parallel(t)
	s := serve(t, "--control")
	pid := readReport(t, s.table).Pid
	report := func(args ...string) string {
		t.Helper()
		r := run(t, cmd(append([]string{build(t, "hotspots"), "report"}, args...)...))
		if r.status != 0 || r.stderr != "" {
			t.Fatalf("%q: status %d: %s", args, r.status, r.stderr)
		}
		return r.stdout
	}
	head := "(pid " + strconv.Itoa(pid) + "), running"
	if text := report(strconv.Itoa(s.cmd.Process.Pid)); !strings.Contains(text, head+": ") {
		t.Errorf("by the number of hotspots:\n%s", text)
	}
	if r := run(t, cmd(build(t, "hotspots"), "report", strconv.Itoa(os.Getpid()))); r.status != 1 { // which has started hotspots
		t.Errorf("by the number of these tests: %+v", r)
	}
	s.hotspots("pause", s.table)
	if text := report(s.table); !strings.Contains(text, head+", counting paused: ") {
		t.Errorf("paused:\n%s", text)
	}
	if text := run(t, cmd(build(t, "hotspots"), "ls", s.table[:strings.LastIndexByte(s.table, '/')])).stdout; !strings.Contains(text, "  paused  ") {
		t.Errorf("paused:\n%s", text)
	}
	s.hotspots("resume", s.table)
	name := strings.TrimSpace(read(t, "/proc/"+strconv.Itoa(pid)+"/comm"))
	if text := report("--by", "thread", s.table); !strings.Contains(text, "  "+name+"\n") {
		t.Errorf("no thread %s:\n%s", name, text)
	}
}
