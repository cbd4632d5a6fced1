package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAttachLateKilled: hotspots is killed in the middle of a plan that a thread waits for: in
// front of the first thing that it does for that, of saying that it begins, and of saying that it
// is through. The program goes on at once, what it loads is named, and the next attach counts it.
func TestAttachLateKilled(t *testing.T) {
	lane.Parallel(t)
	strace := need(t, "strace")
	for _, how := range lane.Some([][]string{{"gcc", "-O1"}, loadsStatic, musl}, 0) {
		program := compileWith(t, how, "attachlate.c")
		library := compileWith(t, slices.Concat(how[:2], []string{"-shared", "-fPIC"}), "latelib.c")
		for _, at := range lane.Some([]struct {
			call string
			n    int
		}{{"sendto", 1}, {"sendto", 2}, {"getsockopt", 1}}, 1, 0) {
			t.Run(fmt.Sprint(how, at), func(t *testing.T) {
				a, b := attachedAndKilled(t, strace, program, library, at.call, at.n)
				r := readReport(t, b.table)
				if r.ObjectsMissed != 1 || len(r.Missed) != 1 || r.Missed[0].Object != library || r.Missed[0].Reason != "no-planner" {
					t.Errorf("missed: %d, %+v", r.ObjectsMissed, r.Missed)
				}
				if n := r.late(library, "late_step"); n != 0 {
					t.Errorf("late_step: %d calls of a library that is not counted", n)
				}
				if s := a.hotspots("attach"); s.status != 0 || !strings.Contains(s.stderr, "1 object that it has loaded since") {
					t.Fatalf("attach again: status %d: %s", s.status, s.stderr)
				}
				a.do("call", library, 30)
				readReport(t, b.table).wants(t, library, 30, 0)
				a.detach()
				a.do("load", library, 10)
				fmt.Fprintln(a.to, "end")
				a.ends()
			})
		}
	}
}

// attachedAndKilled is a program that keeps a library, and hotspots, which is killed in front of its
// nth such call behind that. strace counts those of each thread by itself: where another makes the
// nth, all is done once more.
func attachedAndKilled(t *testing.T, strace, program, library, call string, n int) (*attached, *beside) {
	t.Helper()
	const tries = 30
	returned := regexp.MustCompile(`\) = \d`) // of who is killed strace says = ?
	for range tries {
		a := startAttached(t, program)
		b := a.attachFor()
		id, calls := fmt.Sprint(b.c.Process.Pid), filepath.Join(t.TempDir(), "calls")
		// Who attaches to it by strace is there before the library is loaded.
		killer := exec.Command(strace, "-f", "-p", id, "-o", calls, "-e", "trace="+call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n))
		if err := killer.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool {
			tasks, _ := filepath.Glob("/proc/" + id + "/task/*/status")
			return len(tasks) > 0 && !slices.ContainsFunc(tasks, func(task string) bool {
				s, err := os.ReadFile(task)
				return err == nil && strings.Contains(string(s), "TracerPid:\t0\n")
			})
		}, "strace does not come")
		a.do("keep", library, 10)
		ended := make(chan error, 1)
		go func() { ended <- b.c.Wait() }()
		made := func() bool { return len(returned.FindAllString(read(t, calls), -1)) >= n }
		until(t, func() bool { return len(ended) > 0 || made() }, "hotspots is not killed, and does not make the call")
		if len(ended) == 0 {
			killer.Process.Kill()
			killer.Wait()
			b.c.Process.Kill()
			<-ended
			continue
		}
		if err := <-ended; err == nil || b.c.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("hotspots was not killed: %v", err)
		}
		killer.Wait()
		return a, b
	}
	t.Fatalf("in %d tries another thread made the call", tries)
	return nil, nil
}

// TestAttachLateTargetKilled: the program is killed while one of its threads waits for a plan.
// hotspots ends, and the table is that of a program that was killed.
func TestAttachLateTargetKilled(t *testing.T) {
	lane.Parallel(t)
	program, library := compile(t, need(t, "gcc"), []string{"-O1"}, "attachlate.c"), compile(t, need(t, "gcc"), []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	a := startAttached(t, program)
	b := a.attachFor()
	a.do("load", library, 10)
	halt(t, b.c.Process.Pid)
	fmt.Fprintln(a.to, "load", library, 10)
	until(t, func() bool { // it waits for an answer, by recvfrom
		b, err := os.ReadFile("/proc/" + a.pid() + "/syscall")
		return err == nil && strings.HasPrefix(string(b), "45 ")
	}, "it asks for nothing")
	a.c.Process.Kill()
	b.c.Process.Signal(syscall.SIGCONT)
	if err := b.c.Wait(); err != nil {
		t.Errorf("attach --for ends with %v", err)
	}
	readReport(t, b.table).wants(t, library, 10, 7)
}
