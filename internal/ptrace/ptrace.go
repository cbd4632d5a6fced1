// Package ptrace stops all threads of another process, looks at their registers and sets
// them, and has one of them make system calls (ptrace(2)).
//
// The kernel lets a process go on as it is when its tracer dies. So at every moment each
// thread is where it can be left: as it was stopped, or in code that gets it back there.
// All functions have to be called by one thread (runtime.LockOSThread).
package ptrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/procfile"
)

// Regs are a thread's registers.
type Regs = unix.PtraceRegs

// Requests and events of <linux/ptrace.h> that package unix does not name.
const (
	seize       = 0x4206
	interrupt   = 0x4207
	getSigmask  = 0x420a
	setSigmask  = 0x420b
	getRseq     = 0x420f
	sysGood     = 1   // PTRACE_O_TRACESYSGOOD
	eventStop   = 128 // PTRACE_EVENT_STOP
	syscallTrap = unix.SIGTRAP | 0x80
	noSyscall   = ^uint64(0) // orig_rax of who is in none
)

// Thread is a thread that is stopped.
type Thread struct {
	Tid  int
	Regs Regs // as it was stopped
	// Signal is what it was about to be told of, and will be when it goes on; 0: nothing.
	Signal int
	// Halted: its process is stopped, by SIGSTOP or job control, and stays so.
	Halted bool

	mask     uint64 // blocked signals
	repaired bool
	// kept: its process is a child of this one, and its end is left to who waits for that.
	kept bool
}

// Process is a process whose threads are all stopped.
type Process struct {
	Pid     int
	Threads []*Thread
	Mem     *os.File      // its memory
	killed  []*Thread     // while they were seized: their tracer is to wait for their ends
	Took    time.Duration // that it took to stop it
}

// ErrPatience is the error of Stop where a thread does not stop: one in vfork(2), whose child
// has its memory, or one that waits for a device.
var ErrPatience = errors.New("does not stop")

// ErrExecutes is the error of Stop where a thread executes a program: it takes the number of the
// first, and the others end.
var ErrExecutes = errors.New("executes a program")

// Stop stops all threads of a process, but those that are the kernel's (procfile.IsKernels).
// Those whose system calls failed only because they were stopped make them again. After an
// error none is stopped. Those that sleep are stopped first, and early, if it is not nil, is called
// with them before others are: what can be asked of them then, those need not wait for.
func Stop(pid int, patience time.Duration, early func([]*Thread)) (*Process, error) {
	p, begun := &Process{Pid: pid}, time.Now()
	err := p.stopAll(begun.Add(patience), early)
	if err == nil && len(p.Threads) == 0 {
		err = fmt.Errorf("process %d has no thread that runs: it has ended, or %w", pid, ErrExecutes)
	}
	for _, t := range slices.Backward(p.Threads) {
		if err == nil {
			err = p.repair(t) // before anything else
		}
	}
	if err == nil {
		// By a thread that lives: the first may have ended, and has no memory then.
		p.Mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/task/%d/mem", pid, p.Threads[0].Tid), os.O_RDWR, 0)
	}
	p.Took = time.Since(begun)
	if err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// stopAll goes on until no thread is there that is not stopped: those that run make others.
// Who sleeps comes first, and misses nothing while he is asked; who runs comes late, and goes on
// early (Release). The first thread is the last of all: while it is traced the kernel tells of
// signals to it that it would ignore else, as SIGWINCH, and interrupts whoever waits.
func (p *Process) stopAll(until time.Time, early func([]*Thread)) error {
	known, states := map[int]bool{}, p.states()
	r := newReaper()
	defer r.stop()
	for again := true; again; {
		again = false
		tids, err := tasks(p.Pid)
		if err != nil {
			return err
		}
		asleep, awake := p.order(tids, states)
		for i, some := range [][]int{asleep, awake} {
			var fresh []*Thread
			for _, tid := range some {
				if known[tid] || states[tid] == 0 && stateOf(p.Pid, tid) == kernels {
					continue // the latter is looked at again: it may end, and its number be another's
				}
				known[tid] = true
				t, err := p.seize(tid)
				if err != nil {
					return errors.Join(err, p.await(fresh, until, r))
				}
				if t != nil {
					if tid != p.Pid {
						r.add(tid)
					}
					again, fresh = true, append(fresh, t)
				}
			}
			if err := p.await(fresh, until, r); err != nil {
				return err
			}
			if i == 0 && len(fresh) > 0 && early != nil {
				early(slices.Clone(p.Threads))
			}
		}
	}
	return nil
}

// kernels is the state of a thread that the kernel keeps in a process, and that is let be.
const kernels = 'I'

// states are those of the program's threads (proc_pid_stat(5)) before one is stopped: to look at
// each of many takes time.
func (p *Process) states() map[int]byte {
	all := map[int]byte{}
	tids, _ := tasks(p.Pid)
	for _, tid := range tids {
		if s := stateOf(p.Pid, tid); s != kernels {
			all[tid] = s
		}
	}
	return all
}

// stateOf is that of a thread; 0: it is gone.
func stateOf(pid, tid int) byte {
	b, err := procfile.Read(fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid))
	switch {
	case err != nil:
		return 0
	case procfile.IsKernels(b):
		return kernels
	}
	return procfile.StateOf(b)
}

// order is who slept a moment ago, and the others, the first thread last.
func (p *Process) order(tids []int, states map[int]byte) (asleep, awake []int) {
	for _, tid := range tids {
		if tid != p.Pid && states[tid] == 'S' {
			asleep = append(asleep, tid)
		} else {
			awake = append(awake, tid)
		}
	}
	return asleep, awake
}

// tasks are the numbers of all threads, that of the first last.
func tasks(pid int) (tids []int, err error) {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, e := range all {
		if tid, err := strconv.Atoi(e.Name()); err == nil && tid != pid {
			tids = append(tids, tid)
		}
	}
	return append(tids, pid), err
}

// seize asks a thread to stop; nil: it is gone, or about to.
func (p *Process) seize(tid int) (*Thread, error) {
	err := requestSlow(seize, tid, 0, sysGood)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPERM) && isEnding(p.Pid, tid) {
		return nil, nil
	}
	t := &Thread{Tid: tid}
	if err == nil {
		p.Threads = append(p.Threads, t)
		err = request(interrupt, tid, 0, 0)
	}
	if errors.Is(err, unix.ESRCH) {
		p.leave(t)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("thread %d cannot be stopped: %w", tid, err)
	}
	return t, nil
}

// isEnding reports whether a thread is a zombie, as the first one is that has ended while
// others go on, or about to be gone.
func isEnding(pid, tid int) bool {
	s := stateOf(pid, tid)
	return s == 0 || s == 'Z' || s == 'X'
}

// leave drops a thread that is seized, and does not stop, or not any more. Its end is waited for
// by Release: until that is told, who executes a program waits, and so does the process's parent.
func (p *Process) leave(t *Thread) {
	p.drop(t.Tid)
	p.killed = append(p.killed, t)
}

func (p *Process) drop(tid int) {
	for i, t := range p.Threads {
		if t.Tid == tid {
			p.Threads = append(p.Threads[:i], p.Threads[i+1:]...)
			return
		}
	}
}

// await waits until threads have stopped, and looks at their registers.
func (p *Process) await(threads []*Thread, until time.Time, r *reaper) error {
	for _, t := range threads {
		status, err := t.wait(until)
		if errors.Is(err, unix.ECHILD) {
			if r.has(t.Tid) {
				p.drop(t.Tid)
				continue
			}
			err = ErrExecutes
		}
		if err != nil {
			return fmt.Errorf("thread %d %w", t.Tid, err)
		}
		if !status.Stopped() { // it has ended
			p.drop(t.Tid)
			continue
		}
		t.note(status)
		if err := p.look(t); err != nil {
			return err
		}
	}
	return nil
}

// look looks at the registers of a thread that has stopped.
func (p *Process) look(t *Thread) error {
	err := unix.PtraceGetRegs(t.Tid, &t.Regs)
	if err == nil {
		t.mask, err = sigmask(t.Tid)
	}
	if errors.Is(err, unix.ESRCH) { // since it stopped
		p.leave(t)
		return nil
	}
	if err != nil {
		return fmt.Errorf("thread %d: %w", t.Tid, err)
	}
	return nil
}

// Filters are the seccomp filters of a thread, as bytes of struct sock_filter. It takes
// CAP_SYS_ADMIN, and no filter of our own.
func (t *Thread) Filters() (all [][]byte, err error) {
	for {
		f, err := filter(t.Tid, len(all))
		if f == nil || err != nil {
			return all, err
		}
		all = append(all, f)
	}
}

// note takes down why a thread has stopped.
func (t *Thread) note(status unix.WaitStatus) {
	sig := int(status.StopSignal())
	switch {
	case int(status)>>16 != eventStop:
		t.Signal = sig
	case sig != int(unix.SIGTRAP):
		t.Halted = true
	}
}

// little is for how long this thread keeps its CPU while it waits for another.
const little = 60 * time.Microsecond

// wait waits for a thread's next event. Mostly that takes some microseconds, if it finds a CPU,
// and some tens where one has to be woken for it: so this thread leaves its own to it, but not
// before, as to be woken itself takes as long again. Who only wants for a CPU, as on a busy
// machine, is waited for longer: he stops when he has one.
func (t *Thread) wait(until time.Time) (status unix.WaitStatus, err error) {
	const longer = 20 * time.Second
	begun := time.Now()
	for late := false; ; {
		status, got, err := t.poll(unix.P_PID, unix.WNOHANG)
		if err != nil && err != unix.EINTR || got {
			return status, err
		}
		if late { // he was asked once more, as we may have been who had no CPU
			return status, ErrPatience
		}
		now := time.Now()
		if now.Sub(begun) < little {
			continue
		}
		if late = now.After(until) && (now.After(until.Add(longer)) || !isRunnable(t.Tid)); !late {
			Pause(now.Sub(begun))
		}
	}
}

// poll asks for what has come of a thread, or of any that this thread traces (P_ALL).
func (t *Thread) poll(whom, options int) (status unix.WaitStatus, got bool, err error) {
	tid := t.Tid
	if whom == unix.P_ALL {
		tid, options = -1, options|unix.WNOTHREAD
	}
	if t.kept {
		if status, tid = t.peek(whom, options); tid == 0 || !status.Stopped() {
			return status, tid != 0, nil
		}
	}
	tid, err = unix.Wait4(tid, &status, unix.WALL|options, nil)
	return status, tid > 0, err
}

func isRunnable(tid int) bool { return stateOf(tid, tid) == 'R' }

// Pause has this thread wait for some microseconds, and longer the longer it has waited already, but
// by little beside that: who does not come soon wants for a CPU, and asking takes it from him. It does
// not go by Go's scheduler, whose other threads may have to wait for a CPU meanwhile, longer than the
// process may.
func Pause(waited time.Duration) {
	const least, most, part = 10 * time.Microsecond, time.Millisecond, 16
	t := unix.Timespec{Nsec: int64(min(max(waited/part, least), most))}
	nanosleep(&t)
}

// Release lets all threads go on. Who has not stopped yet must do so first, to be let go:
// nobody else waits for that.
func (p *Process) Release() {
	const patience = 15 * time.Second
	late := p.killed
	for _, t := range slices.Backward(p.Threads) { // who was stopped last has had the least rest
		p.repair(t) // fails if it has not stopped, or is gone
		if t.detach() == unix.ESRCH {
			late = append(late, t)
		}
	}
	// Who has taken the first one's number meanwhile (ErrExecutes) is none of these, or known by another.
	if request(interrupt, p.Pid, 0, 0) == nil {
		late = append(late, &Thread{Tid: p.Pid})
	}
	p.Threads, p.killed = nil, nil
	if p.Mem != nil {
		p.Mem.Close()
	}
	if len(late) == 0 {
		return
	}
	r := newReaper()
	defer r.stop()
	for _, t := range late {
		if t.Tid != p.Pid {
			r.add(t.Tid)
		}
	}
	until := time.Now().Add(patience)
	for _, t := range late {
		for again := true; again; {
			status, err := t.wait(until)
			if again = err == nil && status.Stopped(); again {
				t.note(status)
				p.repair(t)
				again = t.detach() == unix.ESRCH // it was killed since: it ends
			}
		}
	}
}

// repair sees to it that a stopped thread makes its system call again that has failed only
// because it was stopped: nobody is to see that.
func (p *Process) repair(t *Thread) error {
	if t.repaired {
		return nil
	}
	if err := unix.PtraceGetRegs(t.Tid, &t.Regs); err != nil {
		return err
	}
	t.repaired = true
	if !p.isInterrupted(t) {
		return nil
	}
	t.Regs = Again(t.Regs, false)
	return t.Set(&t.Regs)
}

func (t *Thread) detach() error {
	return request(unix.PTRACE_DETACH, t.Tid, 0, uintptr(t.Signal))
}

// InSequence reports whether a thread may be in a restartable sequence (rseq(2)). If it ran
// other code now, the kernel would take it to have left.
func (p *Process) InSequence(t *Thread) bool {
	const current = 8 // rseq_cs
	at, b := sequenceAt(t.Tid), make([]byte, 8)
	if at == 0 {
		return false
	}
	_, err := p.Mem.ReadAt(b, int64(at+current))
	return err != nil || binary.LittleEndian.Uint64(b) != 0
}

// Set gives a thread its registers, with which it goes on.
func (t *Thread) Set(r *Regs) error {
	if err := unix.PtraceSetRegs(t.Tid, r); err != nil {
		return fmt.Errorf("thread %d: its registers cannot be set: %w", t.Tid, err)
	}
	return nil
}

// Mask are the signals that it blocks.
func (t *Thread) Mask() uint64 { return t.mask }

// Restore gives a thread that was led elsewhere its signals' mask and registers.
func (t *Thread) Restore(r *Regs) error {
	if err := setMask(t.Tid, t.mask); err != nil {
		return fmt.Errorf("thread %d: its signals cannot be set: %w", t.Tid, err)
	}
	return t.Set(r)
}

// Lead has a thread go on elsewhere when it is let go, with all signals blocked: Restore or Return
// sets its mask again, or the code that it runs does.
func (t *Thread) Lead(r *Regs) error {
	if err := t.Set(r); err != nil {
		return err
	}
	return setMask(t.Tid, ^uint64(0))
}

// Return is Restore for a thread that, should we die in the middle, may be struck by a signal
// where it was led: it has its GS base first, by which the handler counts.
func (t *Thread) Return(r *Regs) error {
	var now Regs
	if err := unix.PtraceGetRegs(t.Tid, &now); err != nil {
		return err
	}
	if now.Gs_base != r.Gs_base {
		now.Gs_base = r.Gs_base
		if err := t.Set(&now); err != nil {
			return err
		}
	}
	return t.Restore(r)
}

// Run lets one thread go on as Lead has it, while the others stay stopped.
func (t *Thread) Run(r *Regs) error {
	err := t.Lead(r)
	if err == nil {
		err = request(unix.PTRACE_CONT, t.Tid, 0, 0)
	}
	return err
}

// Fetch stops a thread that Run has let go. The registers are those that it has now.
func (t *Thread) Fetch(patience time.Duration) (now Regs, err error) {
	if err := request(interrupt, t.Tid, 0, 0); err != nil {
		return now, fmt.Errorf("thread %d cannot be stopped: %w", t.Tid, err)
	}
	status, err := t.wait(time.Now().Add(patience))
	if err != nil {
		return now, fmt.Errorf("thread %d %w", t.Tid, err)
	}
	if !status.Stopped() {
		return now, fmt.Errorf("thread %d has ended", t.Tid)
	}
	t.note(status)
	return now, unix.PtraceGetRegs(t.Tid, &now)
}

// Stopped reports whether a thread that Run has let go was stopped by a signal, as by a
// fault. It does not wait.
func (t *Thread) Stopped() (signal int, stopped bool) {
	status, got, err := t.poll(unix.P_PID, unix.WNOHANG)
	if err != nil || !got {
		return 0, err != nil && err != unix.EINTR
	}
	return int(status.StopSignal()), true
}
