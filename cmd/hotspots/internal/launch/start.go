package launch

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Result is how a program ended.
type Result struct {
	Pid    int
	Code   int            // exit status
	Signal syscall.Signal // that killed it; 0 if it exited

	Transfers layout.Transfers // what the kernel has read and stored for it; the zero value: it is not known
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
//
// watch, if it is not nil, is called with the process's number while that runs,
// soon after the start and then less and less often.
func Run(p *Program, env []string, watch func(pid int)) (Result, error) {
	ignoreAsBefore()
	r, err := newRelay()
	if err != nil { // too few descriptors: it runs all the same
		pid, err := start(p, env)
		if err != nil {
			return Result{}, err
		}
		return waitFor(pid)
	}
	if r.pid, err = start(p, env); err != nil {
		r.end()
		return Result{}, err
	}
	return r.attend(watch)
}

// RunHeld is Run for a program that a debugger leads in front of its first instruction: held is
// called with a process that executes it when execute is called, and returns when the program
// may run by itself. If it returns an error the process is ended: nothing has run.
func RunHeld(p *Program, env []string, held func(pid int, execute func() error) error, watch func(pid int)) (Result, error) {
	ignoreAsBefore()
	r, err := newRelay()
	if err != nil {
		return Result{}, err
	}
	if r.pid, err = startHeld(p, env, held); err != nil {
		r.end()
		return Result{}, err
	}
	return r.attend(watch)
}

// startHeld makes a child that waits at a pipe until it may execute p.
func startHeld(p *Program, env []string, held func(int, func() error) error) (int, error) {
	ends := make([]int, 2)
	if err := syscall.Pipe2(ends, syscall.O_CLOEXEC); err != nil {
		return 0, os.NewSyscallError("pipe2", err)
	}
	gate, opener := ends[0], ends[1]
	defer syscall.Close(opener)
	pid, err := execute(p.Path, p.Args, env, gate, opener)
	syscall.Close(gate)
	if err != nil {
		return 0, err
	}
	err = held(pid, func() error {
		_, err := syscall.Write(opener, []byte{1})
		return os.NewSyscallError("write", err)
	})
	if err == nil {
		return pid, nil
	}
	if got, gone := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); got == 0 && gone == nil {
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
	}
	return 0, err
}

// Resume does what is left of Run when the program was started before the runtime.
func (e *Early) Resume(watch func(pid int)) (Result, error) {
	ignoreAsBefore()
	r, err := newRelay()
	if err != nil {
		return waitFor(e.Pid)
	}
	asBefore()
	r.pid = e.Pid
	return r.attend(watch)
}

// waitFor waits for a program to which no signal can be passed on.
func waitFor(program int) (Result, error) {
	var ws syscall.WaitStatus
	for {
		pid, err := syscall.Wait4(-1, &ws, 0, nil) // whom this process has adopted, too
		if err == nil && pid == program || err != nil && err != syscall.EINTR {
			return ResultOf(program, ws), os.NewSyscallError("wait4", err)
		}
	}
}

// attend waits for the program.
func (r *relay) attend(watch func(pid int)) (Result, error) {
	caught.program = int32(r.pid)
	var look func()
	if watch != nil {
		look = func() { watch(r.pid) }
	}
	ws, err := r.serve(look)
	r.dismiss()
	caught.thread = 0
	if err != nil {
		r.end()
		return Result{Pid: r.pid}, fmt.Errorf("waiting for process %d: %w", r.pid, err)
	}
	r.outlive()
	result := ResultOf(r.pid, ws)
	result.Transfers = r.transfers
	return result, nil
}

// ResultOf is how a process has ended, of what wait4(2) says.
func ResultOf(pid int, ws syscall.WaitStatus) Result {
	result := Result{Pid: pid, Code: ws.ExitStatus()}
	if ws.Signaled() {
		result.Signal = ws.Signal()
	}
	return result
}

// start executes p. The three descriptors are passed as they are; package os
// would make them blocking.
func start(p *Program, env []string) (int, error) {
	pid, err := execute(p.Path, p.Args, env, 0, 0)
	if errors.Is(err, syscall.ENOEXEC) && isText(p.Path) {
		pid, err = execute(shell, append([]string{shell, p.Path}, p.Args[1:]...), env, 0, 0) // as execvp(3)
	}
	switch {
	case err == nil:
		return pid, nil
	case errors.Is(err, syscall.ENOENT):
		return 0, fmt.Errorf("%s: %w, or its interpreter", p.Path, ErrNotFound)
	}
	return 0, fmt.Errorf("%s: %w: %w", p.Path, ErrNotExecutable, err)
}

// execute makes a child of that program. With a gate, a descriptor, it reads a byte there
// first, as soon as there is one: opener is where that is written.
func execute(path string, args, env []string, gate, opener int) (int, error) {
	file, err := syscall.BytePtrFromString(path)
	if err != nil {
		return 0, err
	}
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return 0, err
	}
	envv, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return 0, err
	}
	as := atStart
	as.gate, as.opener = uint64(gate), uint64(opener)
	passNumber(envv, &as)
	pid := spawn(file, &argv[0], &envv[0], &as)
	if pid < 0 {
		return 0, syscall.Errno(-pid)
	}
	if as.errno != 0 {
		atStart.timers = as.timers // for another try
		syscall.Wait4(pid, nil, 0, nil)
		return 0, syscall.Errno(as.errno)
	}
	return pid, nil
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

// inherited is what this process was started with, and the program shall be.
// Signals are bits, 0 being signal 1.
type inherited struct {
	// The Go runtime catches most of them, and a program that it executes would
	// have the default: systemd ignores SIGPIPE in services, a shell SIGQUIT in
	// background jobs.
	ignored uint64
	//lint:ignore U1000 read by spawn_amd64.s
	blocked uint64 // Go unblocks some
	//lint:ignore U1000 as well
	files [2]uint64 // RLIMIT_NOFILE, which package syscall raises; zero if it is not known
	//lint:ignore U1000 as well
	closed uint64 // a bit for each of the first three descriptors that was closed: the runtime opens them
	errno  uint64 // why execve failed, after spawn
	//lint:ignore U1000 as well
	numbers [len(ofOurNumber)]*byte // where the program's number is to be written, or nil
	// Interval timers (struct itimerval), which an exec leaves as they are: spawn takes them from
	// this process, once.
	timers [3][4]uint64
	// Descriptors of a pipe, of which the child, a copy then, reads a byte before it executes
	// the program; zero: it shares memory.
	//lint:ignore U1000 as well
	gate, opener uint64
}

// atStart is stored by entry_amd64.s; zero if that is not the entry point.
var atStart inherited

// spawn executes a program in a child that is as this process was. It returns
// when the program runs, or has as.errno; with as.gate at once. A negative number is that
// of the error for which there is no child.
func spawn(path *byte, argv, envv **byte, as *inherited) (pid int)

// ignoreAsBefore has this process ignore what it did, when no signal is passed
// on. Without SIGCHLD there is no waiting for the program, and the Go runtime
// wants SIGURG.
func ignoreAsBefore() {
	for s := syscall.Signal(1); s <= 31; s++ {
		if atStart.ignored>>(s-1)&1 != 0 && s != syscall.SIGCHLD && s != syscall.SIGURG {
			signal.Ignore(s)
		}
	}
}
