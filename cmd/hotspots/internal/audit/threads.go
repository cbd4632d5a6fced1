package audit

import (
	"encoding/binary"
	"errors"
	"syscall"

	"github.com/dynprof/dynprof/internal/ptrace"
)

// Threads of who is audited: held while pages are open, and let go.

// hold stops the other threads of a space that may come to its memory.
func (a *Auditor) hold(s *space, but *thread) {
	for _, o := range a.threads {
		if o.space != s || o == but || !o.runs || o.inCall {
			continue
		}
		if o.Interrupt() != nil {
			continue // it is gone, or about to be
		}
		e, err := o.Next(a.first)
		switch {
		case err != nil:
		case e.What == ptrace.Asked:
			o.runs = false
			s.held = append(s.held, o)
		case e.What == ptrace.Gone && o.Tracee != a.first:
			a.drop(o)
		default:
			o.runs = e.What == ptrace.Gone
			a.queue = append(a.queue, e)
		}
	}
}

// release lets them go on.
func (a *Auditor) release(s *space) {
	for _, o := range s.held {
		if a.threads[o.Tracee] == o && o.Go(0) == nil {
			o.runs = true
			a.askAgain(o)
		}
	}
	s.held = nil
	a.queue = append(a.queue, s.deferred...)
	s.deferred = nil
}

func (a *Auditor) drop(t *thread) {
	delete(a.threads, t.Tracee)
	s := t.space
	if t.opener {
		s.openers--
		if s.openers == 0 {
			a.closed()
			a.release(s)
		}
	}
	for _, o := range a.threads {
		if o.space == s {
			s.stale = s.stale || s.open
			return
		}
	}
	delete(a.spaces, s)
	s.close()
}

// forked takes note of whom a thread has made.
func (a *Auditor) forked(t *thread) {
	n, err := t.Message()
	r, err2 := t.Regs()
	if err = errors.Join(err, err2); err == nil {
		s := t.space
		shares := ptrace.SharesMemory(&r, func(at uint64) uint64 {
			var b [8]byte
			s.read(at, b[:])
			return binary.LittleEndian.Uint64(b[:])
		})
		if !shares {
			if s, err = t.space.fork(n); err == nil {
				a.spaces[s] = true
			} else {
				s = t.space
			}
		}
		a.threads[n] = &thread{Tracee: n, space: s, mask: t.mask, runs: !a.early[n]}
		if !s.released.IsZero() {
			a.opened([]uint32{uint32(n)})
		}
		if a.early[n] {
			delete(a.early, n)
			a.queue = append(a.queue, ptrace.Event{Of: n, What: ptrace.Asked, Signal: int(syscall.SIGTRAP)})
		}
	}
	t.Go(0)
	t.runs = true
}

// executed leaves whoever has executed a program: it has no regions.
func (a *Auditor) executed(t *thread) {
	for _, o := range a.threads { // of its process, but for those in others that share memory
		if o != t && o.space == t.space {
			if s, err := ptrace.ReadStatus(int(o.Tracee), int(o.Tracee)); err != nil || s.Group == int(t.Tracee) {
				a.drop(o)
			}
		}
	}
	a.drop(t)
	t.Leave(0)
}

// leaveAll opens what is protected, and leaves all.
func (a *Auditor) leaveAll() {
	a.end("")
	for _, t := range a.threads {
		if t.runs && t.Interrupt() == nil {
			e, err := t.Next(a.first)
			if err != nil || e.What == ptrace.Gone {
				continue
			}
			if e.What == ptrace.Signal {
				if info, err := t.Info(); err == nil && (e.Signal != int(syscall.SIGSEGV) || t.space.find(addressOf(&info)) == nil) {
					t.pending = append(t.pending, told{e.Signal, info})
				}
			}
			begins, _ := t.Begins()
			if e.What == ptrace.Called && begins && t.space.overlaps(0, 1<<47) && !t.space.open {
				a.redo(t)
			}
		}
		a.load(t)
		a.unprotect(t)
		t.space.areas = nil
		sig := 0
		if len(t.pending) > 0 {
			sig = t.pending[0].signal
		}
		a.restore(t)
		t.Leave(sig)
	}
	for s := range a.spaces {
		s.close()
	}
}

// end has nothing protected any more.
func (a *Auditor) end(why string) {
	if a.ended == "" {
		a.ended = why
	}
	a.take()
	a.live = nil
	a.watch(nil)
	for s := range a.spaces {
		s.stale = true
	}
}
