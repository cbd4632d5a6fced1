package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the user's side of a pseudo-terminal.
type terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	seen   chan string
	text   string // not looked at yet
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master := os.NewFile(uintptr(fd), "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Without NOFLSH the kernel throws away what is shown right after Ctrl-Z.
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Lflag |= unix.NOFLSH
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
	tt := &terminal{t: t, master: master, slave: slave, seen: make(chan string, 100)}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			if err != nil {
				close(tt.seen)
				return
			}
			tt.seen <- string(b[:n])
		}
	}()
	t.Cleanup(func() { slave.Close(); master.Close() })
	return tt
}

// start runs cmd as the session's leader on the terminal.
func (tt *terminal) start(cmd *exec.Cmd) {
	tt.t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tt.slave, tt.slave, tt.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		tt.t.Fatal(err)
	}
	tt.t.Cleanup(func() { cmd.Process.Kill() })
}

func (tt *terminal) typeKeys(keys string) {
	tt.t.Helper()
	if _, err := io.WriteString(tt.master, keys); err != nil {
		tt.t.Fatal(err)
	}
}

// expect waits until the text has been shown.
func (tt *terminal) expect(want string) {
	tt.t.Helper()
	limit := time.After(20 * time.Second)
	for !strings.Contains(tt.text, want) {
		select {
		case more, ok := <-tt.seen:
			if !ok {
				tt.t.Fatalf("the terminal closed before %q: %q", want, tt.text)
			}
			tt.text += more
		case <-limit:
			tt.t.Fatalf("no %q: %q", want, tt.text)
		}
	}
	_, tt.text, _ = strings.Cut(tt.text, want)
}

// Ctrl-C goes from the terminal to the whole group: the program must not get
// it once more from hotspots. One that kill(2) sends to hotspots it does get.
func TestTerminalSignalsAreNotDoubled(t *testing.T) {
	for key, name := range map[string]string{"\x03": "INT", "\x1c": "QUIT", "": "WINCH"} {
		t.Run(name, func(t *testing.T) {
			tt := newTerminal(t)
			cmd := command(t, "sh", "-c", `trap 'n=x$n; echo got $n' `+name+`; echo ready; i=0
				while [ $i -lt 20 ]; do sleep 0.05; i=$((i+1)); done; echo all $n; read x; read x; echo then $n; exit 9`)
			tt.start(cmd)
			tt.expect("ready")
			if key != "" {
				tt.typeKeys(key)
			} else if err := unix.IoctlSetWinsize(int(tt.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 7, Col: 7}); err != nil {
				t.Fatal(err)
			}
			tt.expect("got x\r\n")
			tt.expect("all x\r\n")
			if err := cmd.Process.Signal(unix.SignalNum("SIG" + name)); err != nil {
				t.Fatal(err)
			}
			tt.expect("got xx\r\n")
			tt.typeKeys("\n\n")
			tt.expect("then xx\r\n")
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
				t.Error(err)
			}
		})
	}
}

// What stops the program stops hotspots, so that the shell sees it, and fg goes
// on with both.
func TestJobControl(t *testing.T) {
	for _, row := range []struct{ name, keys, script string }{
		{"Ctrl-Z", "\x1a", `echo rea''dy; read x; echo got $x; exit 9`},
		{"it stops its group", "", `echo rea''dy; kill -TSTP 0; read x; echo got $x; exit 9`},
		{"it stops itself", "", `echo rea''dy; kill -STOP $$; read x; echo got $x; exit 9`},
		{"it has a handler that stops it", "\x1a", `trap "trap - TSTP; kill -TSTP \$\$" TSTP; echo rea''dy; until read -t 0.1 y; do x=$x$y; done; echo got $x$y; exit 9`}, // half a line is read at times
	} {
		t.Run(row.name, func(t *testing.T) { jobControl(t, row.keys, row.script, false) })
		if row.keys != "" {
			t.Run(row.name+", later", func(t *testing.T) { jobControl(t, row.keys, row.script, true) })
		}
	}
}

// jobControl types the keys when hotspots is ready; or later, when it has a witness of signals.
func jobControl(t *testing.T, keys, script string, later bool) {
	const prompt = "next> "
	tt := newTerminal(t)
	cmd := command(t, "bash", "-c", script)
	shell := exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i")
	shell.Env = append(cmd.Env, "PS1="+prompt, "HISTFILE=")
	tt.start(shell)
	tt.expect(prompt)
	var line []string
	for _, arg := range cmd.Args {
		line = append(line, "'"+strings.ReplaceAll(arg, "'", `'\''`)+"'")
	}
	tt.typeKeys(strings.Join(line, " ") + "\n")
	await := func(want string, withWitness bool) {
		t.Helper()
		for limit := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			all, witness := states(t, shell.Process.Pid)
			if (want == "" || all == want) && (witness || !withWitness) {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("states of hotspots and the program: %s; a witness: %v", all, witness)
			}
		}
	}
	tt.expect("ready")
	await("", later)
	tt.typeKeys(keys)
	tt.expect("Stopped")
	tt.expect(prompt)
	await("TT", later)
	tt.typeKeys("fg >/dev/null; echo status=$?\n")
	tt.typeKeys("hello\n")
	tt.expect("got hello")
	tt.expect("status=9")
	tt.typeKeys("exit\n")
	shell.Wait()
}

// states returns the state letters of the process's descendants (proc(5)), and whether there is a
// witness among them, which goes on when the others are stopped, and has none.
func states(t *testing.T, pid int) (all string, witness bool) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var children []byte
	for _, list := range lists {
		b, _ := os.ReadFile(list) // the thread may have ended
		children = append(children, b...)
	}
	for _, child := range strings.Fields(string(children)) {
		stat, err := os.ReadFile("/proc/" + child + "/stat")
		if err != nil {
			continue // it has just ended
		}
		n, err := strconv.Atoi(child)
		if err != nil {
			t.Fatal(err)
		}
		name, rest, _ := strings.Cut(string(stat), ") ")
		if strings.HasSuffix(name, "(dynprof-witness") {
			witness = true
			continue
		}
		below, more := states(t, n)
		all, witness = all+rest[:1]+below, witness || more
	}
	return all, witness
}
