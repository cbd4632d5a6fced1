package test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/term"

	"github.com/dynprof/dynprof/internal/lane"
)

// asked is a program of testdata/asked.c that is counted.
type asked struct {
	t     *testing.T
	table string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
}

func ask(t *testing.T, dir string, flags ...string) *asked {
	t.Helper()
	a := &asked{t: t, table: filepath.Join(dir, "asked.dynprof")}
	args := append([]string{"run", "--summary", "0", "-o", a.table}, flags...)
	a.cmd = exec.Command(build(t, "hotspots"), append(args, "--", compile(t, need(t, "gcc"), []string{"-O1", "-g"}, "asked.c"))...)
	a.cmd.Stderr = os.Stderr
	a.in, a.out = converse(t, a.cmd)
	t.Cleanup(a.end)
	a.do("a 0")
	return a
}

// do has functions called.
func (a *asked) do(what string) {
	a.t.Helper()
	fmt.Fprintln(a.in, what)
	if line, err := a.out.ReadString('\n'); line != "done\n" {
		a.t.Fatalf("%q, %v", line, err)
	}
}

// end ends it.
func (a *asked) end() {
	a.in.Close()
	a.cmd.Wait()
}

// seat is a user at a terminal.
type seat struct {
	t    *testing.T
	pty  *os.File
	tty  *os.File
	cmd  *exec.Cmd
	vt   vt10x.Terminal
	raw  strings.Builder // all that it was sent
	deaf atomic.Bool     // it takes nothing any more
	lock sync.Mutex
	gone chan error
}

func sit(t *testing.T, columns, lines int, env []string, args ...string) *seat {
	t.Helper()
	s := &seat{t: t, vt: vt10x.New(vt10x.WithSize(columns, lines)), gone: make(chan error, 1)}
	var err error
	if s.pty, s.tty, err = pty.Open(); err != nil {
		t.Fatal(err)
	}
	s.resize(columns, lines)
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Env = append(append(os.Environ(), "TERM=xterm", "LC_ALL=C.UTF-8", "NO_COLOR="), env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.tty, s.tty, s.tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.gone <- s.cmd.Wait() }()
	go s.look()
	t.Cleanup(func() { s.cmd.Process.Kill(); s.pty.Close(); s.tty.Close() })
	return s
}

// look looks at what comes.
func (s *seat) look() {
	b := make([]byte, 64<<10)
	kept := 0 // of a character that is not whole
	for !s.deaf.Load() {
		n, err := s.pty.Read(b[kept:])
		if err != nil {
			return
		}
		n += kept
		s.lock.Lock()
		s.raw.Write(b[kept:n])
		s.lock.Unlock()
		for kept = 0; kept < 3 && kept < n && b[n-1-kept]&0xc0 == 0x80; kept++ {
		}
		if kept < n && b[n-1-kept] >= 0xc0 {
			kept++
		} else {
			kept = 0
		}
		s.vt.Write(b[:n-kept])
		copy(b, b[n-kept:n])
	}
}

func (s *seat) resize(columns, lines int) {
	s.t.Helper()
	s.vt.Resize(columns, lines) // first, as a terminal does
	if err := pty.Setsize(s.pty, &pty.Winsize{Cols: uint16(columns), Rows: uint16(lines)}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *seat) keys(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.pty, keys); err != nil {
		s.t.Fatal(err)
	}
}

func (s *seat) screen() string { return s.vt.String() }

// sent is all that it was sent.
func (s *seat) sent() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.raw.String()
}

// sees waits until the screen shows what all the expressions say; of those that begin with
// "!", nothing.
func (s *seat) sees(want ...string) {
	s.t.Helper()
	missing := ""
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		missing = ""
		text := s.screen()
		for _, w := range want {
			not, found := strings.HasPrefix(w, "!"), regexp.MustCompile("(?m)"+strings.TrimPrefix(w, "!")).MatchString(text)
			if not == found {
				missing = w
			}
		}
		if missing == "" {
			return
		}
	}
	s.t.Fatalf("%q in\n%s", missing, s.screen())
}

// leaves waits until the command has ended.
func (s *seat) leaves(status int) {
	s.t.Helper()
	select {
	case <-s.gone:
		if got := s.cmd.ProcessState.ExitCode(); got != status {
			s.t.Errorf("status %d, not %d\n%s", got, status, s.screen())
		}
	case <-time.After(20 * time.Second):
		s.t.Fatalf("it does not end\n%s", s.screen())
	}
}

// modes are those of the terminal.
func (s *seat) modes() *term.State {
	s.t.Helper()
	state, err := term.GetState(int(s.tty.Fd()))
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// restored fails unless the terminal is as it was.
func (s *seat) restored(modes *term.State) {
	s.t.Helper()
	if now := s.modes(); !reflect.DeepEqual(now, modes) {
		s.t.Errorf("modes %+v, not %+v", now, modes)
	}
	s.sees("!step_")
	const mouse = vt10x.ModeMouseButton | vt10x.ModeMouseMotion | vt10x.ModeMouseSgr | vt10x.ModeAltScreen | vt10x.ModeHide
	for limit := time.Now().Add(10 * time.Second); s.vt.Mode()&mouse != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			s.t.Errorf("modes %b are left", s.vt.Mode()&mouse)
			return
		}
	}
}

// TestTop: the view shows what was counted, exactly, and does what its keys are for.
func TestTop(t *testing.T) {
	lane.Parallel(t)
	a := ask(t, t.TempDir(), "--blocks", "--threshold", "900")
	a.do("a 1000")
	a.do("b 50")
	// The modes that the terminal has are asked for before top takes it.
	s := sit(t, 80, 24, nil, "sh", "-c", `read x; exec "$@"`, "sh", build(t, "hotspots"), "top", "--interval", "100ms", a.table)
	modes := s.modes()
	s.keys("\n")
	row := func(calls, name string) string { return `^ +\S+ +` + calls + ` .* ` + name + `( |$)` }
	s.sees(`^program +pid \d+ +running`, `all +1,0\d\d calls`, row("1,000", "step_a"), row("50", "step_b"), "!step_c", `step_a +hot`, "1 function became hot", "1,000 calls  thread|900 calls  thread")

	order := func(first, second string) string { return `(?s) ` + first + ` .* ` + second }
	s.keys("s")
	s.sees("▼CALLS ", order("step_a", "step_b"))
	s.keys("S")
	s.sees("▲CALLS ", order("step_b", "step_a"))
	s.keys("ss")
	s.sees("▼FUNCTION", order("step_a", "step_b"), order("main", "step_a"))

	s.keys("/step_b")
	s.sees(row("50", "step_b"), `!^ .* step_a`, `/step_b .*1 function `)
	s.keys("\r\r") // what is left, and all about it
	s.sees("counted by ", `calls +50, `, `(?s)CALLS +THREAD.*\n +50 +\d+ \(first\)`, `(?s)CALLER.*\n +50 +call +main of program`, `50 +100.0%`, `asked.c:\d+`)
	a.do("b 5")
	s.sees(`calls +55, `)
	s.keys("\x1b")
	s.sees("FUNCTION", row("55", "step_b"))
	s.keys("\x1b")
	s.sees(row("1,000", "step_a"))

	s.keys("ms")
	s.keys("sss")
	s.sees("mark 0:0")
	a.do("c 7")
	a.do("a 3")
	s.sees(`7 +new 7 +program +step_c`, `1,003 +3 +program +step_a`)
	s.keys("n")
	s.sees("step_c", `!^ .* step_a`)
	s.keys("M")
	s.sees(row("1,003", "step_a"), "!new 7")

	s.keys("z")
	s.sees("FROZEN")
	a.do("t 30")
	s.keys("G")
	time.Sleep(500 * time.Millisecond)
	s.sees(row("1,003", "step_a"))
	s.keys("zgt")
	s.sees(` 31 .*\d+ *$`, `\d+ \(first\)`, "PID") // thread itself was called, too
	s.keys("o")
	s.sees(`OBJECT`, `100\.00% .* /\S`)
	s.keys("p")
	s.sees("PROGRAM", `1,099 +\d+ +\d+ +/\S`)
	s.keys("f?")
	s.sees("sort by the next column")
	s.keys("x")

	s.resize(130, 40)
	s.sees("TREND", row("1,033", "step_a"))
	s.resize(40, 8)
	s.sees(`q quit`, "step_a")
	s.resize(80, 24)
	s.sees(row("1,033", "step_a"), "Enter details")
	// The head of the column, the second line, the wheel.
	s.keys("\x1b[<0;50;4M")
	s.sees("▼FUNCTION")
	s.keys("\x1b[<0;20;6M\x1b[<65;20;6M")

	a.end()
	s.sees("exited with status 3", row("1,033", "step_a"))
	time.Sleep(300 * time.Millisecond)
	s.sees("exited with status 3", row("1,033", "step_a"))
	s.keys("q")
	s.leaves(0)
	s.restored(modes)
	// Who ran it could not make the table compact, since it was open.
	if fi, err := os.Stat(a.table); err != nil || fi.Size() > 1<<20 || readReport(t, a.table).calls(t, "step_a") != 1033 {
		t.Errorf("%v, %+v", err, fi)
	}
}

// TestTopStops: Ctrl-Z gives the terminal to the shell, and fg takes it again, also behind
// signals from elsewhere.
func TestTopStops(t *testing.T) {
	lane.Parallel(t)
	a := ask(t, t.TempDir())
	a.do("a 1000")
	s := sit(t, 80, 24, []string{"PS1=next> ", "HISTFILE="}, need(t, "bash"), "--norc", "--noprofile", "--noediting", "-i")
	s.sees("next> ")
	modes := s.modes()
	s.keys(build(t, "hotspots") + " top --interval 100ms " + a.table + "\n")
	for _, stop := range []string{"\x1a", "TSTP", "STOP"} {
		s.sees("1,000 .*step_a")
		if len(stop) == 1 {
			s.keys(stop)
		} else {
			s.signalChild(map[string]syscall.Signal{"TSTP": syscall.SIGTSTP, "STOP": syscall.SIGSTOP}[stop])
		}
		s.sees("Stopped", "next> ")
		if stop == "\x1a" { // of the others nobody sees them coming
			s.restored(modes)
			s.sees("next> *$")
		}
		s.keys("clear\n")
		s.sees("!step_a")
		s.keys("fg >/dev/null\n")
	}
	s.sees("1,000 .*step_a")
	s.keys("q")
	s.sees("next> *$")
	s.keys("echo status=$?\n")
	s.sees("status=0")
	s.restored(modes)
}

// signalChild sends a signal to the only child of the command.
func (s *seat) signalChild(sig syscall.Signal) {
	s.t.Helper()
	pid := s.cmd.Process.Pid
	child, err := strconv.Atoi(strings.TrimSpace(read(s.t, fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))))
	if err == nil {
		err = syscall.Kill(child, sig)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestTopEnds: whatever ends it, no process is left, and the terminal is as it was.
func TestTopEnds(t *testing.T) {
	lane.Parallel(t)
	a := ask(t, t.TempDir())
	a.do("a 1000")
	for name, row := range map[string]struct {
		shell  string
		end    func(s *seat)
		status int
	}{
		"SIGTERM":                 {`exec "$@"`, func(s *seat) { s.cmd.Process.Signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM)},
		"Ctrl-C":                  {`exec "$@"`, func(s *seat) { s.keys("\x03") }, 0},
		"SIGINT":                  {`exec "$@"`, func(s *seat) { s.cmd.Process.Signal(syscall.SIGINT) }, 128 + int(syscall.SIGINT)},
		"SIGQUIT":                 {`exec "$@"`, func(s *seat) { s.cmd.Process.Signal(syscall.SIGQUIT) }, 128 + int(syscall.SIGQUIT)},
		"the terminal closes":     {`exec "$@"`, func(s *seat) { s.tty.Close(); s.pty.Close() }, 128 + int(syscall.SIGHUP)},
		"and SIGHUP is not heard": {`trap "" HUP; exec "$@"`, func(s *seat) { s.tty.Close(); s.pty.Close() }, 128 + int(syscall.SIGHUP)},
	} {
		t.Run(name, func(t *testing.T) {
			s := sit(t, 80, 24, nil, "sh", "-c", `read x; `+row.shell, "sh", build(t, "hotspots"), "top", "--interval", "100ms", a.table)
			modes := s.modes()
			s.keys("\n")
			s.sees("1,000 .*step_a")
			row.end(s)
			s.leaves(row.status)
			if !strings.Contains(name, "closes") && !strings.Contains(name, "heard") {
				s.restored(modes)
			}
		})
	}
}

// TestTopStuck: a terminal that takes nothing keeps nobody from ending it.
func TestTopStuck(t *testing.T) {
	lane.Parallel(t)
	a := ask(t, t.TempDir())
	s := sit(t, 200, 50, nil, "sh", "-c", `read x; exec "$@"`, "sh", build(t, "hotspots"), "top", "--interval", "100ms", a.table)
	modes := s.modes()
	s.keys("\n")
	s.sees("CALLS/S")
	s.deaf.Store(true)
	for i := range 30 { // each has all be shown again
		s.resize(170+i, 50)
		time.Sleep(20 * time.Millisecond)
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.leaves(128 + int(syscall.SIGTERM))
	if now := s.modes(); !reflect.DeepEqual(now, modes) {
		t.Errorf("modes %+v, not %+v", now, modes)
	}
}

// TestTopPlain: what a terminal cannot show is not sent to it.
func TestTopPlain(t *testing.T) {
	lane.Parallel(t)
	a := ask(t, t.TempDir())
	a.do("a 1000")
	s := sit(t, 120, 24, []string{"NO_COLOR=1", "LC_ALL=C"}, build(t, "hotspots"), "top", "--interval", "100ms", a.table)
	s.sees("vCALLS/S", "1,000 .*step_a")
	a.do("a 20")
	s.sees("1,020 .*step_a", "@")
	s.keys("?")
	s.sees("any key goes back")
	s.keys("qq")
	s.leaves(0)
	s.lock.Lock()
	defer s.lock.Unlock()
	if m := regexp.MustCompile(`[^\x00-\x7e]|\x1b\[[0-9;]*\b(3[0-9]|9[0-9])m`).FindString(s.raw.String()); m != "" {
		t.Errorf("%q was sent", m)
	}
}

// TestTopOnce: one screen as text; and without a terminal a line that says so.
func TestTopOnce(t *testing.T) {
	lane.Parallel(t)
	dir := t.TempDir()
	home := filepath.Join(dir, "dynprof")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	a := ask(t, home)
	a.do("a 1000")
	top := func(args ...string) result {
		c := cmd(append([]string{build(t, "hotspots"), "top"}, args...)...)
		c.env = []string{"XDG_RUNTIME_DIR=" + dir, "COLUMNS=100", "LINES=30", "LC_ALL=C.UTF-8"}
		return run(t, c)
	}
	r := top(a.table)
	oneLine(t, r.stderr, "top needs a terminal: use hotspots report", "")
	if r.status != 1 || r.stdout != "" {
		t.Errorf("%+v", r)
	}
	// A table that is newer than that of the program which runs.
	if later := run(t, cmd(build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(home, "later.dynprof"), "--", "true")); later.status != 0 {
		t.Fatalf("%+v", later)
	}
	for _, args := range [][]string{{"--once", "--interval", "100ms", a.table}, {"--once", "--interval", "100ms"}, {"--once", "--interval", "100ms", "--by", "function", "--sort", "name", "--filter", "step_"}} {
		r := top(args...)
		if r.status != 0 || r.stderr != "" || !regexp.MustCompile(`(?m)1,000 .*step_a$`).MatchString(r.stdout) || !strings.Contains(r.stdout, "running") || strings.Contains(r.stdout, "\x1b") || strings.Contains(r.stdout, "quit") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	a.end()
	if r := top("--once"); !strings.Contains(r.stdout, "exited with status") || !strings.HasPrefix(r.stdout, "true ") { // none runs: the newest
		t.Errorf("%+v", r)
	}
	for _, row := range [][]string{{"--interval", "1ms"}, {"--sort", "size"}, {"--by", "process"}} {
		r := top(append(row, "--once")...)
		oneLine(t, r.stderr, row[0], "")
		if r.status != 2 {
			t.Errorf("%v: %+v", row, r)
		}
	}
}

// TestTopCutTable: a table that is cut short while it is shown is told of, and no count goes
// back.
func TestTopCutTable(t *testing.T) {
	lane.Parallel(t)
	a := ask(t, t.TempDir())
	a.do("a 1000")
	a.end()
	s := sit(t, 80, 24, nil, build(t, "hotspots"), "top", "--interval", "100ms", a.table)
	s.sees("1,000 .*step_a", "exited with status 3")
	if err := os.Truncate(a.table, 8192); err != nil {
		t.Fatal(err)
	}
	s.sees("cut short: copy it again", "1,000 .*step_a")
	s.keys("\r")
	s.sees("tactic", "cut short")
	s.keys("q")
	s.leaves(0)
}
