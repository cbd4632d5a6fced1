package launch

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/dynprof/dynprof/internal/sigmask"
)

// Result is how a program ended.
type Result struct {
	Pid    int
	Code   int            // exit status
	Signal syscall.Signal // that killed it; 0 if it exited
}

// Status is what a shell would make of it: 128+N after signal N.
func (r Result) Status() int {
	if r.Signal != 0 {
		return 128 + int(r.Signal)
	}
	return r.Code
}

// Run executes the program with the descriptors of this process and waits for
// it. It stays in this process group, so that the terminal treats both alike:
// Ctrl-Z stops both, Ctrl-C reaches both. An error means that nothing ran; it
// wraps ErrNotFound or ErrNotExecutable.
func Run(p *Program, env []string) (Result, error) {
	ignoreAsBefore()
	signals := make(chan os.Signal, 16)
	if list := forwarded(); len(list) > 0 { // none would mean all
		signal.Notify(signals, list...)
		defer signal.Stop(signals)
	}
	pid, err := start(p, env)
	if err != nil {
		return Result{}, err
	}
	var mu sync.Mutex
	reaped := false // then the number may be another process's
	go func() {
		for s := range signals {
			if fromTerminal(s) && inForeground() {
				continue
			}
			mu.Lock()
			if !reaped {
				syscall.Kill(pid, s.(syscall.Signal)) // an error means that it may not be signalled: set-user-ID
			}
			mu.Unlock()
		}
	}()
	if err := awaitEnd(pid); err != nil {
		return Result{Pid: pid}, err
	}
	mu.Lock()
	defer mu.Unlock()
	reaped = true
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
		return Result{Pid: pid}, fmt.Errorf("waiting for process %d: %w", pid, err)
	}
	r := Result{Pid: pid, Code: ws.ExitStatus()}
	if ws.Signaled() {
		r.Signal = ws.Signal()
	}
	return r, nil
}

// awaitEnd waits until the child has ended and leaves its corpse. (os.Process
// would do, but its first use makes a short-lived child, and Ctrl-Z at that
// moment stops that in vfork and this process never.)
func awaitEnd(pid int) error {
	const byPid, leave = 1, 0x1000000 // P_PID, WNOWAIT of waitid(2)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid), 0, syscall.WEXITED|leave, 0, 0)
		if errno == 0 {
			return nil
		}
		if errno != syscall.EINTR {
			return fmt.Errorf("waiting for process %d: %w", pid, errno)
		}
	}
}

// start executes p. The three descriptors are passed as they are; package os
// would make them blocking.
func start(p *Program, env []string) (int, error) {
	attr := &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}}
	defer blockAsBefore()()
	pid, err := syscall.ForkExec(p.Path, p.Args, attr)
	if errors.Is(err, syscall.ENOEXEC) && isText(p.Path) {
		pid, err = syscall.ForkExec(shell, append([]string{shell, p.Path}, p.Args[1:]...), attr) // as execvp(3)
	}
	switch {
	case err == nil:
		return pid, nil
	case errors.Is(err, syscall.ENOENT):
		return 0, fmt.Errorf("%s: %w, or its interpreter", p.Path, ErrNotFound)
	}
	return 0, fmt.Errorf("%s: %w: %w", p.Path, ErrNotExecutable, err)
}

// isText reports whether the file may be a script without an interpreter.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, scriptBytes)
	n, _ := f.Read(start)
	line, _, _ := strings.Cut(string(start[:n]), "\n")
	return !strings.ContainsRune(line, 0)
}

// ignoredAtStart has a bit for each signal, 0 for the first, that this process
// was started with ignored. The Go runtime catches most of them, and a program
// that it executes would have the default: systemd ignores SIGPIPE in
// services, a shell SIGQUIT in background jobs. Stored by entry_amd64.s; zero
// if that is not the entry point.
var ignoredAtStart uint64

// blockedAtStart are the signals that were blocked, in the same form. Go
// unblocks some of them.
var blockedAtStart uint64

// blockAsBefore gives this thread the mask that the program shall inherit, until
// the function that it returns is called.
func blockAsBefore() (undo func()) {
	runtime.LockOSThread()
	old := sigmask.Set(blockedAtStart)
	return func() {
		sigmask.Set(old)
		runtime.UnlockOSThread()
	}
}

// ignoreAsBefore makes the program inherit what this process did. Without
// SIGCHLD there is no waiting for it, and the Go runtime wants SIGURG.
func ignoreAsBefore() {
	for s := syscall.Signal(1); s <= 31; s++ {
		if ignoredAtStart>>(s-1)&1 != 0 && s != syscall.SIGCHLD && s != syscall.SIGURG {
			signal.Ignore(s)
		}
	}
}

// forwarded are the signals to pass on, but for those that are ignored.
func forwarded() []os.Signal {
	var all []os.Signal
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGINT, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

func fromTerminal(s os.Signal) bool { return s == syscall.SIGINT || s == syscall.SIGQUIT }

// inForeground reports whether this process group is the terminal's: then the
// terminal has sent its signal to the program as well. (A signal by kill(2)
// to this process alone cannot be told from that, and is not passed on.)
func inForeground() bool {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return false
	}
	// pid (name) state ppid pgrp session tty_nr tpgid; proc(5)
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return len(fields) > 5 && fields[5] == strconv.Itoa(syscall.Getpgrp())
}
