package test

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// goesOn sees that the program works, and is counted wholly or not at all.
func (a *attached) goesOn() {
	a.t.Helper()
	before := a.quiet()
	counted := a.hotspots("report").status == 0
	var first *report
	if counted {
		first = readReport(a.t, a.pid())
	}
	after := a.works(before)
	if last := first; counted {
		last = readReport(a.t, a.pid())
		if last.TotalCalls > first.TotalCalls { // else it is not counted any more, and has the table yet
			a.compare(before, after, first, last)
		}
	}
	a.goOn()
}

// works has the program, which is quiet, go on until it has called something, and is quiet again.
func (a *attached) works(before map[string]uint64) (after map[string]uint64) {
	a.t.Helper()
	until(a.t, func() bool {
		a.goOn()
		time.Sleep(5 * time.Millisecond)
		after = a.quiet()
		return !maps.Equal(before, after)
	}, "nobody works")
	return after
}

// endsInterrupted is end: who is killed between stopping a thread and looking at it has
// interrupted it.
func (a *attached) endsInterrupted() {
	a.t.Helper()
	fmt.Fprintln(a.to, "end")
	if s := a.line(); !strings.HasPrefix(s, "wrong 0 ") {
		a.t.Errorf("the program says %q", s)
	}
	a.ends()
}

// killedAt is the command of a hotspots that is killed in front of its nth system call of a kind.
func killedAt(t *testing.T, strace, call string, n int, args ...string) []string {
	t.Helper()
	return append([]string{strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n), build(t, "hotspots")}, args...)
}

// TestAttachKilled: hotspots is killed in front of its nth system call of a kind, and the
// program goes on, counted wholly or not at all. To detach then takes away all that is left.
func TestAttachKilled(t *testing.T) {
	lane.Parallel(t)
	strace := need(t, "strace")
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c")
	for k, what := range lane.Some([]string{"attach", "detach", "attach", "detach"}, 0, 1) {
		i, blocks := k%2, []string(nil)
		if k > 1 { // and copies of functions
			blocks = []string{"--blocks", "--edges"}
		}
		calls, quick := []string{"ptrace", "pwrite64", "pread64"}, []int{0}
		if what == "attach" { // by which the table is sent
			calls, quick = append(calls, "pidfd_getfd", "sendmsg"), []int{0, len(calls) + 1}
		}
		for _, call := range lane.Some(calls, quick...) {
			t.Run(strings.Join(append([]string{what, call}, blocks...), "/"), func(t *testing.T) {
				a := startAttached(t, p, "4")
				if call == "sendmsg" || call == "pidfd_getfd" {
					rootOnly(t, "cannot give a program other mounts")
					c := exec.Command(p, "4")
					c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
					a = converseAttached(t, c)
				}
				before, dir := a.state(), t.TempDir()
				for n := 1 + i; !t.Failed(); n += lane.Of(151, 9) {
					table := filepath.Join(dir, fmt.Sprint(n))
					args := []string{what}
					if what == "detach" {
						a.attach(blocks...)
					} else {
						args = append(args, blocks...)
						args = append(args, "-o", table)
					}
					r := run(t, cmd(killedAt(t, strace, call, n, append(args, a.pid())...)...))
					if r.status != 0 && r.status != 128+int(syscall.SIGKILL) {
						t.Fatalf("hotspots %s, killed at %s %d: status %d: %s", what, call, n, r.status, r.stderr)
					}
					a.goesOn()
					if what == "attach" && n%2 == 0 { // who is left behind is no obstacle to the next
						if again := a.hotspots("attach", "-o", filepath.Join(dir, "again")); again.status != 0 && !strings.Contains(again.stderr, "is counted already") {
							t.Fatalf("attach once more, after %s %d: status %d: %s", call, n, again.status, again.stderr)
						}
						a.goesOn()
					}
					d := a.hotspots("detach")
					if d.status != 0 && !strings.Contains(d.stderr, "is not attached to") {
						t.Fatalf("detach, after %s %d: status %d: %s", call, n, d.status, d.stderr)
					}
					if now := a.state(); now != before {
						t.Errorf("after %s %d something is left, detach: %q: %s", call, n, d.stderr, difference(before, now))
					}
					if r.status == 0 {
						break
					}
				}
				a.endsInterrupted()
			})
		}
	}
}
