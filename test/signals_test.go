package test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/dynprof/dynprof/internal/lane"
)

// signalled is a run of testdata/signalled.c, by hotspots run or plainly. Its
// process, which signals are sent to, is hotspots or the program.
type signalled struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// catchable are the signals that a process may handle. libc keeps two of those
// in between for itself.
func catchable() (all []syscall.Signal) {
	for s := syscall.Signal(1); s <= 64; s++ {
		if s != syscall.SIGKILL && s != syscall.SIGSTOP && s != 32 && s != 33 {
			all = append(all, s)
		}
	}
	return all
}

// startSignalled waits until the program is ready. args begins with how.
func startSignalled(t *testing.T, args ...string) *signalled {
	t.Helper()
	c := exec.Command(args[0], args[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Dir = t.TempDir() // for cores
	in, out := converse(t, c)
	r := &signalled{t, c, in, out}
	t.Cleanup(func() { syscall.Kill(-c.Process.Pid, syscall.SIGKILL); c.Wait() })
	r.expect("ready\n")
	return r
}

func (r *signalled) expect(want string) {
	r.t.Helper()
	if line, err := r.out.ReadString('\n'); line != want {
		r.t.Fatalf("%q, %v; want %q", line, err, want)
	}
}

func (r *signalled) send(s syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(r.cmd.Process.Pid, s); err != nil {
		r.t.Fatal(err)
	}
}

// queue sends a signal with a value.
func (r *signalled) queue(s syscall.Signal, value int32) {
	r.t.Helper()
	info := struct {
		signal, errno, code, pad, pid, uid, value int32
		rest                                      [100]byte
	}{signal: int32(s), code: -1, value: value}
	if _, _, errno := syscall.Syscall(syscall.SYS_RT_SIGQUEUEINFO, uintptr(r.cmd.Process.Pid), uintptr(s), uintptr(unsafe.Pointer(&info))); errno != 0 {
		r.t.Fatal(errno)
	}
}

// wait is what a parent sees of it: that it stopped or how it ended, in the
// words of a shell.
func (r *signalled) wait() string {
	r.t.Helper()
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(r.cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil {
		r.t.Fatal(err)
	}
	switch {
	case ws.Stopped():
		return fmt.Sprint("stopped by ", int(ws.StopSignal()))
	case ws.Signaled():
		return fmt.Sprint(128 + int(ws.Signal()))
	}
	return fmt.Sprint(ws.ExitStatus())
}

// end ends the input, and returns what ended does.
func (r *signalled) end() string {
	r.t.Helper()
	r.in.Close()
	return r.ended()
}

// ended is what else was shown, and wait.
func (r *signalled) ended() string {
	r.t.Helper()
	rest, err := io.ReadAll(r.out)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(rest) + r.wait()
}

// TestSignals: every signal that is sent to hotspots only, as a supervisor or a
// script does, has the effect on the program that it has without, and once:
// whatever the program does with it, and whether signals were ignored or blocked
// at the start, as those of the keyboard are for `cmd &` in scripts.
func TestSignals(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "signalled.c")
	counted := []string{build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "%p.dynprof")}
	ways := map[string][]string{"plain": nil, "counted": append(slices.Clone(counted), "--"), "counted, not started early": append(counted, lateStart, "1s", "--")}
	for name, way := range ways {
		for _, before := range []string{"-default", "-ignore", "-block"} {
			start := func(t *testing.T, mode string) *signalled {
				return startSignalled(t, slices.Concat([]string{program, before}, way, []string{program, mode})...)
			}
			t.Run(name+" "+before, func(t *testing.T) {
				t.Parallel()
				t.Run("handled", func(t *testing.T) { signalsHandled(t, start(t, "handled")) })
				t.Run("ignored", func(t *testing.T) { signalsIgnored(t, start(t, "ignored")) })
				switch before {
				case "-default":
					t.Run("default", func(t *testing.T) { signalsDefault(t, func() *signalled { return start(t, "default") }) })
				case "-ignore":
					t.Run("default", func(t *testing.T) { signalsIgnored(t, start(t, "default")) })
				}
			})
		}
	}
}

// TestSignalsKept: a program that resumes contexts where it has put them has nothing
// written below them, and is told where there is none.
func TestSignalsKept(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "keptframes.c")
	without := run(t, cmd(p))
	if without.status != 0 {
		t.Fatalf("without the library: %+v", without)
	}
	for _, flags := range [][]string{nil, {"--objects", "all", "--threshold", "100", "--control"}, {"--lock"}} {
		with, r := counted(t, cmd(p), flags...)
		same(t, without, with)
		if got := r.calls(t, "work"); got != 300 {
			t.Errorf("%v: work: %d calls, not 300", flags, got)
		}
	}
}

// TestActionsElsewhere: handlers are installed by structures that are not on the stack.
func TestActionsElsewhere(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "actions.c")
	want := "it faults in the function\nthere was the first handler\nit faults in the function\nthere is the second\n"
	for _, flags := range [][]string{nil, {"--allow-traps"}} {
		c := cmd(slices.Concat([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "table")}, flags, []string{"--", program})...)
		if r := run(t, c); r.status != 0 || r.stdout != want {
			t.Errorf("%v: %+v", flags, r)
		}
	}
}

// TestSignalsAtOnce: a signal that comes as soon as the program is there, when the Go
// runtime is not, reaches the program; hotspots does not end without it.
func TestSignalsAtOnce(t *testing.T) {
	lane.Parallel(t)
	hotspots, dir := build(t, "hotspots"), t.TempDir()
	// The library has its place then; before, programs are started by the Go runtime.
	if r := run(t, cmd(hotspots, "run", "--summary", "0", "-o", filepath.Join(dir, "%p"), "--", "true")); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	for _, s := range catchable() {
		switch s {
		case syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
			continue // it goes on
		}
		c := exec.Command(hotspots, "run", "--summary", "0", "-o", filepath.Join(dir, "%p"), "--", "sleep", "60")
		c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true} // for cores
		start := time.Now()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		children := fmt.Sprintf("/proc/%d/task/%d/children", c.Process.Pid, c.Process.Pid)
		for {
			b, err := os.ReadFile(children)
			if errors.Is(err, os.ErrNotExist) {
				t.Skip("no ", children)
			}
			if len(b) > 0 {
				break
			}
			if time.Since(start) > time.Minute {
				t.Fatalf("%v: hotspots has no child of its first thread", s)
			}
		}
		c.Process.Signal(s)
		c.Wait()
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what is left
		if got, want := c.ProcessState.ExitCode(), 128+int(s); got != want {
			t.Errorf("%v: status %d, not %d", s, got, want)
		}
	}
}

// TestStartedEarly: hotspots run starts the program before the Go runtime, which goes on
// before the packages that serve metrics are initialised; else TestSignals and others test
// one way where they are to test two.
func TestStartedEarly(t *testing.T) {
	lane.Parallel(t)
	dir := t.TempDir()
	trace := func(flags ...string) string {
		args := append([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(dir, "%p")}, flags...)
		r := run(t, command{args: append(args, "--", "true"), env: []string{"GODEBUG=inittrace=1"}})
		if r.status != 0 || !strings.Contains(r.stderr, "init runtime @") {
			t.Fatalf("%+v", r)
		}
		return r.stderr
	}
	if s := trace(lateStart, "1s"); !strings.Contains(s, "init net/http @") { // the library has its place now
		t.Errorf("with %s:\n%s", lateStart, s)
	}
	if s := trace(); strings.Contains(s, "init net/http @") {
		t.Errorf("not started early:\n%s", s)
	}
}

// lateStart is a flag that says nothing without another, and by which hotspots run does
// not start the program before the Go runtime (launch/early.go). It has a value.
const lateStart = "--linger"

func signalsHandled(t *testing.T, r *signalled) {
	want := ""
	for _, s := range catchable() {
		r.send(s)
		r.expect(fmt.Sprintf("got %d\n", s))
		times := 1
		if s >= 34 {
			for value := range int32(3) {
				r.queue(s, value)
				r.expect(fmt.Sprintf("got %d with %d\n", s, value))
			}
			times = 4
		}
		want += fmt.Sprintf("%d: %d\n", s, times)
	}
	if got := r.end(); got != want+"7" {
		t.Errorf("got\n%s\nwant\n%s7", got, want)
	}
}

func signalsIgnored(t *testing.T, r *signalled) {
	for _, s := range catchable() {
		r.send(s)
	}
	if got := r.end(); got != "7" {
		t.Errorf("got %q", got)
	}
}

func signalsDefault(t *testing.T, start func() *signalled) {
	for _, s := range catchable() {
		r := start()
		r.send(s)
		got, want := "", "7"
		switch s {
		case syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
			if got, want := r.wait(), fmt.Sprint("stopped by ", int(s)); got != want {
				t.Errorf("%v: %q, not %q", s, got, want)
			}
			r.send(syscall.SIGCONT)
			got = r.end()
		case syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGWINCH:
			got = r.end()
		default:
			got, want = r.ended(), fmt.Sprint(128+int(s))
		}
		if got != want {
			t.Errorf("%v: %q, not %q", s, got, want)
		}
	}
}

// TestClosedDescriptors: what was closed when hotspots started is closed for the
// program, too.
func TestClosedDescriptors(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "closed.c")
	for _, closed := range []string{"<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-", ""} {
		shell := func(args ...string) int {
			return run(t, cmd(append([]string{"sh", "-c", `exec "$@" ` + closed, "sh"}, args...)...)).status
		}
		table := filepath.Join(t.TempDir(), "table")
		want, got := shell(program), shell(build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--", program)
		if got != want {
			t.Errorf("%q: status %d, without hotspots %d", closed, got, want)
		}
		if n := readReport(t, table).calls(t, "main"); n != 1 {
			t.Errorf("%q: %d calls of main", closed, n)
		}
	}
}

// TestSignalsAtEnd: signals that come when the program has ended, and hotspots looks
// after its table, do not change how it ended.
func TestSignalsAtEnd(t *testing.T) {
	lane.Parallel(t)
	table := filepath.Join(t.TempDir(), "table")
	r := startSignalled(t, build(t, "hotspots"), "run", "--control", "-o", table, "--summary", "0", "--", "sh", "-c", "echo ready; read line; exit 3")
	pid, agent := readReport(t, table).Pid, agentOf(t, table)
	for limit := time.Now().Add(patience); agent == 0; agent = agentOf(t, table) { // it is about to come
		if time.Now().After(limit) {
			t.Fatal("no agent")
		}
	}
	halt(t, agent) // hotspots waits for it
	r.in.Close()
	for limit := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the program has not ended")
		}
	}
	for _, s := range catchable() {
		if s != syscall.SIGPIPE && s != syscall.SIGTSTP && s != syscall.SIGTTIN && s != syscall.SIGTTOU {
			syscall.Kill(r.cmd.Process.Pid, s) // an error: it has waited long enough
		}
	}
	syscall.Kill(agent, syscall.SIGCONT)
	r.cmd.Wait()
	if s := r.cmd.ProcessState; s.ExitCode() != 3 {
		t.Errorf("%v, not status 3", s)
	}
}

// TestTimersKept: interval timers are the program's, as behind any exec, also where it is started by
// the runtime, and where a second try finds it to be a script.
func TestTimersKept(t *testing.T) {
	lane.Parallel(t)
	timers := compile(t, need(t, "gcc"), []string{"-O1"}, "timers.c")
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("exec "+timers+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string]string{"program": timers, "script": script} {
		want := run(t, cmd(timers, timers))
		if want.status != 0 || strings.Count(want.stdout, "as set") != 3 {
			t.Fatalf("without: %+v", want)
		}
		for _, flags := range [][]string{nil, {lateStart, "1s"}} {
			args := append([]string{timers, build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "table")}, flags...)
			if got := run(t, cmd(append(args, "--", program)...)); got.stdout != want.stdout || got.status != 0 {
				t.Errorf("%s, %q: %+v, not %q", name, flags, got, want.stdout)
			}
		}
	}
}
