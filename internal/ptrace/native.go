package ptrace

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	traceExit = 1 << 6  // PTRACE_O_TRACEEXIT
	exitKill  = 1 << 20 // PTRACE_O_EXITKILL
	eventExit = 6       // PTRACE_EVENT_EXIT
)

// Begun takes up a child of this thread that it has started to be traced (syscall.SysProcAttr): it is
// stopped in front of its first instruction, all that it and whom it makes do is told from now on, but
// for system calls, and it ends if this process does.
func Begun(pid int) (Tracee, error) {
	t := &Thread{Tid: pid}
	status, err := t.next()
	if err == nil && !status.Stopped() {
		err = ErrNotExecuted
	}
	if err == nil {
		err = request(setOptions, pid, 0, sysGood|traceFork|traceVfork|traceClone|traceExec|traceExit|exitKill)
	}
	if err != nil {
		return 0, fmt.Errorf("process %d cannot be traced: %w", pid, err)
	}
	return Tracee(pid), nil
}

// Come waits for what comes next of any tracee of this thread. Of one that is gone there is how that was.
func Come() (e Event, status unix.WaitStatus, err error) {
	for {
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		return eventOf(tid, status), status, os.NewSyscallError("wait4", err)
	}
}

// Run has it go on, with a signal or 0, and does not stop it at system calls.
func (t Tracee) Run(sig int) error { return request(unix.PTRACE_CONT, int(t), 0, uintptr(sig)) }

// Call has a tracee that is stopped make a system call that does not wait, by an instruction for that
// somewhere in its memory. It is as it was then.
func (t Tracee) Call(at, nr uint64, args ...uint64) (result uint64, err error) {
	was, err := t.Regs()
	if err != nil {
		return 0, err
	}
	mask, err := t.Mask()
	if err == nil {
		err = t.SetMask(^uint64(0))
	}
	if err != nil {
		return 0, err
	}
	c := Caller{at: at, state: was}
	now := c.calling(nr, args)
	err = t.SetRegs(&now)
	for range 2 { // its entry, its end
		if err == nil {
			err = t.Go(0)
		}
		var e Event
		if err == nil {
			e, _, err = t.take()
		}
		if err == nil && e.What != Called {
			err = fmt.Errorf("it does not come back from a system call: %+v", e)
		}
	}
	if err == nil {
		now, err = t.Regs()
	}
	if err == nil {
		err = t.SetRegs(&was)
	}
	if err == nil {
		err = t.SetMask(mask)
	}
	if n := int64(now.Rax); err == nil && n < 0 && n >= -4095 {
		err = unix.Errno(-n)
	}
	return now.Rax, err
}
