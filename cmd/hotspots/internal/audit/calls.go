package audit

import (
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// System calls: those of the program, with pages open, and our own, which its threads make.

// call has a stopped thread make a system call, which does not wait; not one that is at the
// beginning of one.
func (a *Auditor) call(t *thread, nr uint64, args ...uint64) (ret uint64, ok bool) {
	var v [6]uint64
	copy(v[:], args)
	a.load(t)
	t.led = true
	r := t.regs
	r.Rip, r.Rax, r.Orig_rax = t.space.at, nr, ptrace.NoCall
	r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9 = v[0], v[1], v[2], v[3], v[4], v[5]
	if t.SetRegs(&r) != nil {
		return 0, false
	}
	for t.Step(0) == nil {
		e, err := t.Next(a.first)
		if err != nil || e.What == ptrace.Gone {
			a.queue = append(a.queue, e)
			return 0, false
		}
		if e.What != ptrace.Signal {
			continue
		}
		info, err := t.Info()
		if err != nil {
			return 0, false
		}
		if e.Signal == int(syscall.SIGTRAP) && codeOf(&info) > 0 {
			a.spoil(t, syscall.SIGTRAP)
			now, err := t.Regs()
			return now.Rax, err == nil && !isError(now.Rax) && now.Rip != t.space.at
		}
		t.pending = append(t.pending, told{e.Signal, info})
	}
	return 0, false
}

func isError(ret uint64) bool {
	const mostErrno = 4095
	n := -int64(ret)
	return n > 0 && n <= mostErrno
}

// restore gives a thread the registers that it goes on with, and what the kernel has taken from
// it since it could not tell of a fault or a step that was not the program's.
func (a *Auditor) restore(t *thread) {
	if t.spoilt {
		t.spoilt = false
		for sig, action := range t.space.actions {
			copy(a.spare, action)
			a.call(t, ptrace.CallSigaction, uint64(sig), a.spareAt, 0, 8)
		}
		if t.spoilt = false; !t.again {
			t.SetMask(t.mask)
		}
	}
	t.again = false
	if t.led {
		t.SetRegs(&t.regs)
		t.led = false
	}
}

// spoil notes that the kernel could not tell a thread of a signal.
func (a *Auditor) spoil(t *thread, sig syscall.Signal) {
	if t.mask>>(sig-1)&1 != 0 {
		t.spoilt = true
	}
}

// readActions asks what the program does with faults and steps.
func (a *Auditor) readActions(t *thread) {
	s := t.space
	s.actions = map[int][]byte{}
	for _, sig := range []syscall.Signal{syscall.SIGSEGV, syscall.SIGTRAP} {
		if _, ok := a.call(t, ptrace.CallSigaction, uint64(sig), 0, a.spareAt, 8); ok {
			s.actions[int(sig)] = append([]byte{}, a.spare[:actionSize]...)
		}
	}
}

const actionSize = 32 // struct sigaction of the kernel's

func (a *Auditor) called(t *thread) {
	begins, err := t.Begins()
	if err != nil {
		t.runs = t.Go(0) == nil
		return
	}
	t.led = false
	a.load(t)
	t.inCall = begins
	if begins {
		a.callBegins(t)
	} else {
		a.callEnds(t)
	}
}

func (a *Auditor) callBegins(t *thread) {
	s, r := t.space, &t.regs
	t.tells = r.Orig_rax == syscall.SYS_GETPID && r.Rdi == layout.RgAuditCall
	t.rests = t.tells && r.Rsi != 0
	switch {
	case r.Orig_rax == ptrace.CallSigaction && r.Rsi != 0:
		t.sig, t.action = int(r.Rdi), s.read(r.Rsi, make([]byte, actionSize))
	case r.Orig_rax == ptrace.CallSeccomp || r.Orig_rax == ptrace.CallPrctl && r.Rdi == ptrace.SetSeccomp:
		a.end("the program installs a seccomp filter")
	case r.Orig_rax == ptrace.CallRseq:
		s.strip(r.Rdi, r.Rdi+r.Rsi)
	}
	switch {
	case t.opener || s.open && s.openers == 0 || len(s.areas) == 0 || !ptrace.Reaches(r, s.overlaps, s.read):
	case s.openers > 0: // it is open
		t.opener = true
		s.openers++
		a.result.Calls++
	default:
		a.redo(t)
		if a.threads[t.Tracee] != t {
			return
		}
		a.hold(s, t)
		a.unprotect(t)
		t.opener, t.inCall = true, false
		s.openers, s.since, s.released = 1, time.Now(), time.Time{}
		a.result.Calls++
		a.goOn(t)
		return
	}
	t.runs = t.Go(0) == nil
}

// redo takes a thread from the beginning of a system call to in front of it.
func (a *Auditor) redo(t *thread) {
	const size = 2 // of the instruction
	a.load(t)
	again := t.regs
	again.Rax, again.Orig_rax = t.regs.Orig_rax, ptrace.NoCall
	again.Rip -= size
	none := t.regs
	none.Orig_rax = ptrace.NoCall
	t.SetRegs(&none)
	for t.Go(0) == nil {
		e, err := t.Next(a.first)
		if err != nil || e.What == ptrace.Gone {
			a.queue = append(a.queue, e)
			return
		}
		if e.What == ptrace.Called {
			break
		}
	}
	t.regs, t.led = again, true
}

// maps reports whether a system call that has ended has mapped memory where regions are.
func (a *Auditor) maps(r *ptrace.Regs) bool {
	switch r.Orig_rax {
	case syscall.SYS_MMAP:
		return a.isLive(r.Rax, r.Rax+r.Rsi)
	case syscall.SYS_MREMAP:
		return a.isLive(r.Rax, r.Rax+r.Rdx)
	case syscall.SYS_BRK:
		return a.isLive(r.Rax-pageSize, r.Rax)
	}
	return false
}

func (a *Auditor) callEnds(t *thread) {
	s, r := t.space, &t.regs
	t.mask, _ = t.Mask()
	t.again = int64(r.Rax) == -int64(syscall.EINTR) || int64(r.Rax) <= -512 && int64(r.Rax) >= -516 // ERESTARTSYS and others
	failed := isError(r.Rax)
	if t.action != nil {
		if _, kept := s.actions[t.sig]; kept && !failed && len(t.action) == actionSize {
			s.actions[t.sig] = t.action
		}
		t.action = nil
	}
	if t.opener {
		t.opener = false
		if s.openers--; s.openers == 0 {
			a.closeAll(t)
		}
	}
	if t.tells {
		t.tells = false
		a.changed(t)
	} else if !failed && a.maps(r) {
		s.stale = true
	}
	if s.stale {
		a.refresh(t)
	}
	a.goOn(t)
}
