package audit

import (
	"encoding/binary"
	"slices"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/ptrace"
)

// Faults of protected pages, and signals of the program's own.

func addressOf(info *ptrace.SigInfo) uint64 {
	const at = 16
	return binary.LittleEndian.Uint64(info[at:])
}

func codeOf(info *ptrace.SigInfo) int32 { return int32(binary.LittleEndian.Uint32(info[8:])) }

// fault lets an access to a protected page through. false: it is another's fault.
func (a *Auditor) fault(t *thread, info *ptrace.SigInfo) bool {
	const forbidden = 2 // SEGV_ACCERR
	s, at := t.space, addressOf(info)
	if codeOf(info) != forbidden || s.find(at) == nil {
		return false
	}
	a.spoil(t, syscall.SIGSEGV)
	if s.open { // since
		a.goOn(t)
		return true
	}
	if a.ended != "" || s.stale {
		a.refresh(t)
		a.goOn(t)
		return true
	}
	begun := time.Now()
	a.hold(s, t)
	a.load(t)
	t.led = true
	rip := t.regs.Rip
	lanes := a.note(t, at)
	a.step(t, at)
	if t.within = 0; lanes && t.regs.Rip == rip {
		t.within = rip
	}
	a.release(s)
	a.result.Faults++
	a.result.Took += uint64(time.Since(begun))
	a.goOn(t)
	return true
}

// note notes what an instruction does with regions.
// It reports whether there are lanes, of which a step may do some: all have been noted by then.
func (a *Auditor) note(t *thread, fault uint64) (lanes bool) {
	s, p := t.space, t.space.placeOf(t.regs.Rip)
	if a.isInFlight(uint32(t.Tracee)) {
		a.take()
	}
	var b [15]byte
	all, lanes := operands(s.read(t.regs.Rip, b[:]), &t.regs, t.Vectors, fault)
	if lanes && t.within == t.regs.Rip {
		return true
	}
	for _, o := range all {
		if !a.isRecorded(o.at, o.at+uint64(max(o.size, 1)), o.load, o.store) {
			continue
		}
		if p.own {
			a.result.Own++
			continue
		}
		a.seen(access{uint32(t.Tracee), o.size, o.load, o.store, p.home, o.at}, how{o.form, p.copied})
	}
	return lanes
}

// step runs the instruction that has faulted, with the pages open that it comes to.
func (a *Auditor) step(t *thread, at uint64) {
	s := t.space
	var opened []uint64
	for at != 0 {
		page := at &^ (pageSize - 1)
		opened = append(opened, page)
		a.call(t, ptrace.CallMprotect, page, pageSize, uint64(s.find(page).prot))
		at = a.stepOnce(t, opened)
	}
	for _, page := range opened {
		a.call(t, ptrace.CallMprotect, page, pageSize, 0)
	}
}

// stepOnce returns the address of another page that the instruction comes to; 0: it has run, or
// has a fault of its own.
func (a *Auditor) stepOnce(t *thread, opened []uint64) uint64 {
	s := t.space
	before := t.regs.Rip
	t.SetRegs(&t.regs)
	for t.Step(0) == nil {
		e, err := t.Next(a.first)
		if err != nil || e.What == ptrace.Gone {
			a.queue = append(a.queue, e)
			return 0
		}
		if e.What != ptrace.Signal {
			continue
		}
		info, err := t.Info()
		if err != nil {
			return 0
		}
		at, isSync := addressOf(&info), codeOf(&info) > 0
		switch sig := syscall.Signal(e.Signal); {
		case sig == syscall.SIGTRAP && isSync:
			a.spoil(t, sig)
			t.regs, _ = t.Regs()
			a.unflag(t, before)
			return 0
		case sig == syscall.SIGSEGV && isSync && s.find(at) != nil && !slices.Contains(opened, at&^(pageSize-1)):
			return at
		case isSync && (sig == syscall.SIGSEGV || sig == syscall.SIGBUS || sig == syscall.SIGFPE || sig == syscall.SIGILL):
			t.pending = append(t.pending, told{e.Signal, info})
			t.regs, _ = t.Regs()
			return 0
		}
		t.pending = append(t.pending, told{e.Signal, info})
	}
	return 0
}

// unflag takes the flag of a step out of the flags that an instruction has pushed.
func (a *Auditor) unflag(t *thread, at uint64) {
	const pushf, trap = 0x9c, 0x01 // of the second byte
	var b [2]byte
	if b2 := t.space.read(at, b[:]); len(b2) == 2 && (b2[0] == pushf || b2[0] == 0x66 && b2[1] == pushf) {
		if f := t.space.read(t.regs.Rsp+1, make([]byte, 1)); len(f) == 1 {
			f[0] &^= trap
			t.space.mem.WriteAt(f, int64(t.regs.Rsp+1))
		}
	}
}

// unflagFrame takes the flag of a step out of the flags that a handler returns to: the kernel
// leaves it there where it is in front of a popf.
func unflagFrame(t *thread, flags uint64) {
	const at, trap = 8 + 40 + 17*8, 0x100 // in struct rt_sigframe; TF
	r, err := t.Regs()
	if err != nil || flags&trap != 0 {
		return
	}
	if b := t.space.read(r.Rsp+at, make([]byte, 8)); len(b) == 8 {
		if f := binary.LittleEndian.Uint64(b); f&trap != 0 && f&^uint64(trap) == flags {
			binary.LittleEndian.PutUint64(b, f&^uint64(trap))
			t.space.mem.WriteAt(b, int64(r.Rsp+at))
		}
	}
}

// goOn has a thread go on where it was, with the signals that it has to be told of.
func (a *Auditor) goOn(t *thread) {
	if _, there := a.threads[t.Tracee]; !there {
		return
	}
	for i := 0; len(t.pending) > 0; i++ {
		p := t.pending[0]
		t.pending = t.pending[1:]
		s := t.space
		if len(s.areas) == 0 || !a.isCaught(t, p.signal) {
			if i < len(t.pending) { // those that have handlers first: a fault is to be told of where it is
				t.pending = append(t.pending, p)
				continue
			}
			a.restore(t)
			t.SetInfo(&p.info)
			t.runs = t.Go(p.signal) == nil
			a.askAgain(t)
			return
		}
		a.enter(t, p)
	}
	a.restore(t)
	t.runs = t.Go(0) == nil
}

// askAgain has a thread that runs stop for what it has still to be told of.
func (a *Auditor) askAgain(t *thread) {
	if t.runs && len(t.pending) > 0 {
		t.Interrupt()
	}
}

// enter leads a thread into the handler of a signal: the kernel writes to its stack, where pages
// may be protected.
func (a *Auditor) enter(t *thread, p told) {
	s := t.space
	if s.openers == 0 {
		a.hold(s, t)
		a.load(t)
		t.led = true
		a.unprotect(t)
	}
	a.restore(t)
	t.SetInfo(&p.info)
	before, _ := t.Regs()
	for sig := p.signal; t.Step(sig) == nil; sig = 0 {
		e, err := t.Next(a.first)
		if err != nil || e.What == ptrace.Gone {
			a.queue = append(a.queue, e)
			break
		}
		if e.What == ptrace.Signal {
			info, _ := t.Info()
			if e.Signal == int(syscall.SIGTRAP) && codeOf(&info) >= 0 {
				unflagFrame(t, before.Eflags)
				break
			}
			t.pending = append(t.pending, told{e.Signal, info})
		}
	}
	t.mask, _ = t.Mask()
	if t.opener && !t.inCall { // it has not begun the call, and will
		t.opener = false
		s.openers--
	}
	if s.openers == 0 {
		a.load(t)
		t.led = true
		a.closeAll(t)
	}
}

// closeAll protects what is open, when no system call needs it open any more.
func (a *Auditor) closeAll(t *thread) {
	s := t.space
	if !s.released.IsZero() {
		a.hold(s, t)
		a.take()
		a.closed()
		a.result.Open += uint64(time.Since(s.released))
		s.released = time.Time{}
	}
	a.protect(t)
	a.release(s)
}

func (a *Auditor) isCaught(t *thread, sig int) bool {
	s, err := ptrace.ReadStatus(int(t.space.pid), int(t.Tracee))
	return err == nil && s.Caught>>(sig-1)&1 != 0
}
