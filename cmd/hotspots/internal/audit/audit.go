// Package audit sees by itself which accesses to regions a program makes, and compares them with
// what is recorded (docs/regions.md). It traces the program, and protects the pages of regions:
// an access there faults, is noted, and is let through by a single step while the pages are open
// and the other threads held. Nothing of it runs in the program.
package audit

import (
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/table/regions"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// Auditor traces a program.
type Auditor struct {
	ring    *regions.Ring
	take    func() bool // takes what is recorded so far
	spare   []byte
	spareAt uint64
	*matcher

	first    ptrace.Tracee
	threads  map[ptrace.Tracee]*thread
	spaces   map[*space]bool
	early    map[ptrace.Tracee]bool // who was seen before it was told who has made them
	queue    []ptrace.Event
	live     []area
	recorded []regions.Region // that they are of
	bare     []area           // of all spaces, at any time
	ended    string           // why nothing is protected any more
	done     chan struct{}
}

// thread is one that is traced.
type thread struct {
	ptrace.Tracee
	space  *space
	runs   bool // it has not stopped
	inCall bool // it is in a system call: it stops before it comes to memory by itself
	opener bool // pages are open for its call
	tells  bool // its call tells that regions are others,
	rests  bool // or that pages have to be open until the next

	regs    ptrace.Regs
	within  uint64 // unless 0 it is there, and some lanes of the instruction are done
	led     bool   // it has been elsewhere: regs are where it goes on
	mask    uint64
	again   bool // it is to make a call again, which has another mask
	spoilt  bool // the kernel has changed what it does with faults, or steps
	action  []byte
	sig     int // that action is for
	pending []told
}

// told is a signal that a thread has to be told of.
type told struct {
	signal int
	info   ptrace.SigInfo
}

// New makes one that compares with what is in a ring.
func New(ring *regions.Ring) *Auditor {
	a := &Auditor{ring: ring, matcher: newMatcher(ring), threads: map[ptrace.Tracee]*thread{}, spaces: map[*space]bool{}, early: map[ptrace.Tracee]bool{}, done: make(chan struct{})}
	a.spare, a.spareAt = ring.Spare()
	a.spareAt += emit.ShadowAt
	ring.Ask()
	return a
}

// Start has a child, which waits for that, execute its program, and begins to trace it. It
// returns when the program runs. take takes what is recorded so far.
func (a *Auditor) Start(pid int, execute func() error, take func() bool, release func()) error {
	a.take, a.first = take, ptrace.Tracee(pid)
	begun := make(chan error)
	go func() {
		runtime.LockOSThread() // and ends with its thread
		defer close(a.done)
		defer release()
		process, err := ptrace.Execute(pid, execute)
		if err == nil {
			err = a.begin(process)
		}
		begun <- err
		if err == nil {
			a.run()
		}
	}()
	return <-begun
}

func (a *Auditor) begin(p *ptrace.Process) error {
	t, err := p.Watch()
	if err == nil {
		var s *space
		if s, err = newSpace(t); err == nil {
			a.spaces[s] = true
			a.threads[t] = &thread{Tracee: t, space: s, runs: true}
			err = t.Go(0)
		}
	}
	if err != nil {
		p.Release()
		return fmt.Errorf("it cannot be traced: %w", err)
	}
	return nil
}

// Result is what has come of it, when the program has ended.
func (a *Auditor) Result() *regions.Audit {
	<-a.done
	a.result.Ended = a.ended
	return a.sum(func(low, high uint64) bool { return overlap(a.bare, low, high) })
}

// run handles what comes, until the first process has ended.
func (a *Auditor) run() {
	for {
		e, err := a.next()
		if err != nil || e.Of == a.first && e.What == ptrace.Gone {
			break
		}
		a.handle(e)
	}
	a.leaveAll()
}

// shortly is for how long threads are held while a system call of another has pages open.
const shortly = 5 * time.Millisecond

func (a *Auditor) next() (ptrace.Event, error) {
	for {
		if len(a.queue) > 0 {
			e := a.queue[0]
			a.queue = a.queue[1:]
			return e, nil
		}
		waits := false
		for s := range a.spaces {
			if s.openers > 0 && s.released.IsZero() {
				if time.Since(s.since) > shortly {
					a.letRun(s)
				} else {
					waits = true
				}
			}
		}
		if len(a.queue) > 0 {
			continue
		}
		e, some, err := ptrace.Next(a.first, !waits)
		if some || err != nil {
			return e, err
		}
		ptrace.Pause(0)
	}
}

// letRun lets other threads run, although pages are open: what they do is not seen.
func (a *Auditor) letRun(s *space) {
	a.take()
	s.released = time.Now()
	var tids []uint32
	for _, t := range a.threads {
		if t.space == s {
			tids = append(tids, uint32(t.Tracee))
		}
	}
	a.opened(tids)
	a.release(s)
}

func (a *Auditor) handle(e ptrace.Event) {
	t := a.threads[e.Of]
	if t == nil {
		if e.What != ptrace.Gone {
			a.early[e.Of] = true // who has made it tells
		}
		return
	}
	s := t.space
	t.runs = false
	if e.What == ptrace.Gone {
		a.drop(t)
		return
	}
	if s.openers > 0 && s.released.IsZero() && !t.opener { // another has pages open
		s.deferred = append(s.deferred, e)
		return
	}
	switch e.What {
	case ptrace.Called:
		a.called(t)
		return
	case ptrace.Forked:
		a.forked(t)
		return
	case ptrace.Executed:
		a.executed(t)
		return
	case ptrace.Halts:
		if t.Listen() == nil {
			return
		}
	case ptrace.Signal:
		info, err := t.Info()
		if err != nil {
			return
		}
		if e.Signal == int(syscall.SIGSEGV) && a.fault(t, &info) {
			return
		}
		t.pending = append(t.pending, told{e.Signal, info})
	case ptrace.Asked:
		a.refresh(t)
	}
	a.goOn(t)
}

// refresh sees to what other threads could not, whose stop it is.
func (a *Auditor) refresh(t *thread) {
	s := t.space
	if s.openers > 0 || !s.stale && !s.open {
		return
	}
	a.hold(s, t)
	a.load(t)
	a.unprotect(t)
	s.stale = false
	a.protect(t)
	a.release(s)
}

func (a *Auditor) load(t *thread) {
	if !t.led {
		t.regs, _ = t.Regs()
	}
}
