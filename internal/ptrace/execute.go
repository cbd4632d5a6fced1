package ptrace

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	listen    = 0x4208 // PTRACE_LISTEN
	traceExec = 16     // PTRACE_O_TRACEEXEC
	eventExec = 4      // PTRACE_EVENT_EXEC
)

// ErrNotExecuted is the error of Execute where a process has ended instead, and is waited for.
var ErrNotExecuted = errors.New("has executed nothing")

// Execute has a process, a child of this one, execute a program: tell tells it to, and is not
// called if the process cannot be traced. It returns it stopped, in front of the program's first
// instruction. After another error than ErrNotExecuted it goes on.
func Execute(pid int, tell func() error) (*Process, error) {
	if err := request(seize, pid, 0, sysGood|traceExec); err != nil {
		return nil, fmt.Errorf("process %d cannot be traced: %w", pid, err)
	}
	p, t := &Process{Pid: pid}, &Thread{Tid: pid}
	err := tell()
	if err == nil {
		err = t.executes()
	}
	if err == nil {
		p.Threads = []*Thread{t}
	}
	return p.begun(err)
}

// begun leads a process that has executed a program to its first instruction. After an error it
// goes on.
func (p *Process) begun(err error) (*Process, error) {
	if err == nil {
		err = p.Threads[0].first()
	}
	if err == nil {
		if p.Mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.Pid), os.O_RDWR, 0); err != nil {
			err = fmt.Errorf("has memory that cannot be written to: %w", err)
		}
	}
	if err != nil {
		p.Release()
		return nil, fmt.Errorf("process %d %w", p.Pid, err)
	}
	return p, nil
}

// executes waits until a thread has executed a program. Until then it gets its signals.
func (t *Thread) executes() error {
	status, err := t.next()
	for {
		if err != nil {
			return err
		}
		how, sig := unix.PTRACE_CONT, status.StopSignal()
		switch event := int(status) >> 16; {
		case !status.Stopped():
			return ErrNotExecuted
		case event == eventExec:
			return nil
		case event == eventStop:
			if sig != unix.SIGTRAP {
				how = listen // its process is stopped, until it is continued
			}
			sig = 0
		}
		status, err = t.goOn(how, sig)
	}
}

// goOn has a thread go on in a way, with a signal or 0, and waits for what comes next.
func (t *Thread) goOn(how int, sig unix.Signal) (unix.WaitStatus, error) {
	if err := request(how, t.Tid, 0, uintptr(sig)); err != nil && !errors.Is(err, unix.ESRCH) {
		return 0, fmt.Errorf("cannot be run: %w", err)
	}
	return t.next()
}

// next waits for what comes next, as long as that takes.
func (t *Thread) next() (status unix.WaitStatus, err error) {
	for {
		if status, _, err = t.poll(unix.P_PID, 0); err != unix.EINTR {
			return status, os.NewSyscallError("wait4", err)
		}
	}
}

// first leads a thread that is in the system call yet, by which it has executed a program, out
// of it: what comes first then is a stop.
func (t *Thread) first() error {
	const patience = 10 * time.Second
	err := request(interrupt, t.Tid, 0, 0)
	if err == nil {
		err = request(unix.PTRACE_CONT, t.Tid, 0, 0)
	}
	if err != nil {
		return fmt.Errorf("cannot be run: %w", err)
	}
	status, err := t.wait(time.Now().Add(patience))
	if err != nil {
		return err
	}
	if !status.Stopped() {
		return ErrNotExecuted
	}
	t.note(status)
	if err = unix.PtraceGetRegs(t.Tid, &t.Regs); err == nil {
		t.mask, err = sigmask(t.Tid)
	}
	return err
}
