package ptrace

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/procfile"
)

var executions = []uint64{unix.SYS_EXECVE, unix.SYS_EXECVEAT}

// Follow is Execute for a thread of another process, which is about to execute a program, and
// waits for ready: that is called when it is traced. Nothing else may be traced by the thread
// that calls it.
func Follow(pid, tid int, ready func() error) (*Process, error) {
	if err := request(seize, tid, 0, sysGood|traceExec); err != nil {
		return nil, fmt.Errorf("process %d cannot be traced: %w", pid, err)
	}
	p, t := &Process{Pid: pid}, &Thread{Tid: tid, kept: isChild(pid)}
	p.Threads = []*Thread{t}
	err := t.haltHere()
	if err == nil {
		err = ready()
	}
	if err == nil {
		err = t.follows(pid)
	}
	return p.begun(err)
}

func (t *Thread) haltHere() error {
	const patience = 10 * time.Second
	if err := request(interrupt, t.Tid, 0, 0); err != nil {
		return fmt.Errorf("cannot be stopped: %w", err)
	}
	status, err := t.wait(time.Now().Add(patience))
	if err == nil && !status.Stopped() {
		err = ErrNotExecuted
	}
	if err == nil {
		t.note(status)
	}
	return err
}

// follows lets a thread go on until it has executed a program, which then has the number of its
// process, or has failed to. Until then it gets its signals.
func (t *Thread) follows(pid int) error {
	const patience = 20 * time.Second // a handler may have gone elsewhere
	sig := unix.Signal(t.Signal)
	for until := time.Now().Add(patience); !t.Halted; {
		t.Signal = 0
		if err := request(unix.PTRACE_SYSCALL, t.Tid, 0, uintptr(sig)); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("cannot be run: %w", err)
		}
		status, err := t.nextOfAny(until)
		if err != nil {
			return errors.Join(err, t.haltHere())
		}
		if !status.Stopped() {
			return ErrNotExecuted
		}
		sig = status.StopSignal()
		switch event := int(status) >> 16; {
		case event == eventExec:
			t.Tid = pid
			return nil
		case event == eventStop && sig != unix.SIGTRAP:
			t.Halted = true
		case event == eventStop:
			sig = 0
		case sig == syscallTrap:
			sig = 0
			if failed, err := t.hasFailed(); failed || err != nil {
				return errors.Join(err, ErrNotExecuted)
			}
		}
	}
	return errors.New("was stopped") // and stays so
}

// hasFailed reports whether a thread comes back from executing a program.
func (t *Thread) hasFailed() (bool, error) {
	const begins = -int64(unix.ENOSYS) // what rax is in front of a call
	var r Regs
	if err := unix.PtraceGetRegs(t.Tid, &r); err != nil {
		return false, err
	}
	rax := int64(r.Rax)
	return slices.Contains(executions, r.Orig_rax) && rax < 0 && rax != begins, nil
}

// nextOfAny waits for what comes next of whom this thread traces: who executes a program gets
// another number by that.
func (t *Thread) nextOfAny(until time.Time) (unix.WaitStatus, error) {
	for begun := time.Now(); ; Pause(time.Since(begun)) {
		status, got, err := t.poll(unix.P_ALL, unix.WNOHANG)
		if err != nil && err != unix.EINTR || got {
			return status, err
		}
		if time.Now().After(until) {
			return 0, errors.New("executes nothing")
		}
	}
}

// isChild reports whether a process is a child of this one.
func isChild(pid int) bool {
	b, err := procfile.Read(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := procfile.FieldsOf(b)
	return len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid())
}
