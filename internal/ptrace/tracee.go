package ptrace

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Tracee is a thread that is traced while it runs, and stops at its system calls, signals and
// children. All but Interrupt is for one that has stopped.
type Tracee int

// Options and events of <linux/ptrace.h> that package unix does not name.
const (
	setOptions  = 0x4200
	getMessage  = 0x4201
	callInfo    = 0x420e
	traceFork   = 1 << 1
	traceVfork  = 1 << 2
	traceClone  = 1 << 3
	eventFork   = 1
	eventVfork  = 2
	eventCloned = 3
)

// Watch has all that a process does told from now on: it was executed, and is stopped in front
// of its first instruction (Execute).
func (p *Process) Watch() (Tracee, error) {
	t := p.Threads[0].Tid
	return Tracee(t), request(setOptions, t, 0, sysGood|traceFork|traceVfork|traceClone|traceExec)
}

// What has come of a tracee.
type What int

// Kinds of what has.
const (
	Gone     What = iota // it has ended
	Called               // it is at the beginning or the end of a system call
	Forked               // it has made a thread or a process: Message has its number
	Executed             // a program
	Halts                // it was stopped by job control, and stays so (Listen)
	Asked                // it was asked to stop (Interrupt), or begins
	Signal               // it is about to be told of Event.Signal, as of a fault or a step
	Ends                 // it is about to end, and has its memory yet (Begun)
)

// Event is what has come of whom.
type Event struct {
	Of     Tracee
	What   What
	Signal int
}

func eventOf(tid int, ws unix.WaitStatus) Event {
	e := Event{Of: Tracee(tid)}
	if !ws.Stopped() {
		return e
	}
	switch e.Signal = int(ws.StopSignal()); int(ws) >> 16 {
	case eventFork, eventVfork, eventCloned:
		e.What = Forked
	case eventExec:
		e.What = Executed
	case eventExit:
		e.What = Ends
	case eventStop:
		if e.What = Halts; e.Signal == int(unix.SIGTRAP) {
			e.What = Asked
		}
	default:
		if e.What = Signal; e.Signal == int(syscallTrap) {
			e.What = Called
		}
	}
	return e
}

// Next waits for what comes next of any tracee of this thread; of first, a child of this
// process, whose end is left to who waits for it, that is told again each time. some: there is
// something.
func Next(first Tracee, wait bool) (e Event, some bool, err error) {
	t := Thread{Tid: int(first), kept: true}
	options := unix.WNOTHREAD
	if !wait {
		options |= unix.WNOHANG
	}
	ws, tid := t.peek(unix.P_ALL, options)
	if tid == 0 {
		return e, false, nil
	}
	if tid == int(first) && !ws.Stopped() {
		return Event{Of: first}, true, nil
	}
	return Tracee(tid).take()
}

// Next waits for what comes next of one that is not the first.
func (t Tracee) Next(first Tracee) (Event, error) {
	if t == first {
		th := Thread{Tid: int(t), kept: true}
		if ws, _ := th.peek(unix.P_PID, 0); !ws.Stopped() {
			return Event{Of: t}, nil
		}
	}
	e, _, err := t.take()
	return e, err
}

func (t Tracee) take() (Event, bool, error) {
	for {
		var ws unix.WaitStatus
		tid, err := unix.Wait4(int(t), &ws, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case err == nil:
			return eventOf(tid, ws), true, nil
		case errors.Is(err, unix.ECHILD):
			return Event{Of: t}, true, nil
		case !errors.Is(err, unix.EINTR):
			return Event{Of: t}, false, err
		}
	}
}

// Regs are its registers.
func (t Tracee) Regs() (r Regs, err error) {
	err = unix.PtraceGetRegs(int(t), &r)
	return r, err
}

// SetRegs sets them.
func (t Tracee) SetRegs(r *Regs) error { return unix.PtraceSetRegs(int(t), r) }

// Go has it go on to its next system call, with a signal or 0.
func (t Tracee) Go(sig int) error { return request(unix.PTRACE_SYSCALL, int(t), 0, uintptr(sig)) }

// Step has it run one instruction, or go to the beginning of a handler.
func (t Tracee) Step(sig int) error { return request(unix.PTRACE_SINGLESTEP, int(t), 0, uintptr(sig)) }

// Listen leaves it stopped by job control.
func (t Tracee) Listen() error { return request(listen, int(t), 0, 0) }

// Interrupt asks it to stop.
func (t Tracee) Interrupt() error { return request(interrupt, int(t), 0, 0) }

// Leave has it go on untraced.
func (t Tracee) Leave(sig int) error { return request(unix.PTRACE_DETACH, int(t), 0, uintptr(sig)) }

// Message is the number of whom it has made, where it has.
func (t Tracee) Message() (Tracee, error) {
	n, err := unix.PtraceGetEventMsg(int(t))
	return Tracee(n), err
}

// Mask are the signals that it blocks, bit N-1 for signal N.
func (t Tracee) Mask() (uint64, error) { return sigmask(int(t)) }

// SetMask sets them.
func (t Tracee) SetMask(mask uint64) error { return setMask(int(t), mask) }

// Sequence is where it has its struct rseq; 0: nowhere that is known.
func (t Tracee) Sequence() uint64 { return sequenceAt(int(t)) }

// SharesMemory reports whether a system call that makes a thread or a process, with these
// registers, leaves it the caller's memory; flags reads those of clone3.
func SharesMemory(r *Regs, flags func(at uint64) uint64) bool {
	switch r.Orig_rax {
	case unix.SYS_FORK:
		return false
	case unix.SYS_CLONE:
		return r.Rdi&unix.CLONE_VM != 0
	case unix.SYS_CLONE3:
		return flags(r.Rdi)&unix.CLONE_VM != 0
	}
	return true
}
