// Package audit sees by itself which accesses to regions a program makes, and compares them with
// what is recorded (docs/regions.md). It traces the program, and protects the pages of regions:
// an access there faults, is noted, and is let through by a single step while the pages are open
// and the other threads held. Nothing of it runs in the program.
package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/table/layout"
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
		ptrace.Pause()
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

// ---- threads ----

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

// ---- regions ----

// changed takes notice that there are other regions.
func (a *Auditor) changed(t *thread) {
	if a.ended != "" {
		return
	}
	a.take() // what there is of new ones is not compared
	a.live = nil
	var all []regions.Region
	if !t.rests {
		all = a.ring.Live()
	}
	for _, r := range all {
		a.live = append(a.live, area{low: r.Address, high: r.Address + r.Bytes})
	}
	a.recorded = all
	for s := range a.spaces {
		s.stale = true
	}
	a.refresh(t)
	a.watch(all)
	for s := range a.spaces {
		if !s.stale {
			continue
		}
		for _, o := range a.threads { // another process
			if o.space == s && o.runs && !o.inCall && o.Interrupt() == nil {
				break
			}
		}
	}
}

// isLive reports whether memory is of a region.
func (a *Auditor) isLive(low, high uint64) bool { return overlap(a.live, low, high) }

// isRecorded reports whether an access is recorded, of the kinds that a region has.
func (a *Auditor) isRecorded(low, high uint64, load, store bool) bool {
	return slices.ContainsFunc(a.recorded, func(r regions.Region) bool {
		return low < r.Address+r.Bytes && high > r.Address && r.Kinds.Has(load, store)
	})
}

// protect protects the pages of regions, which are open; so does it for those that other threads
// have made meanwhile. Other threads are held.
func (a *Auditor) protect(t *thread) {
	s := t.space
	for _, o := range a.threads {
		if o.space == s && o.regs.Fs_base != 0 {
			s.stripThread(o)
		}
	}
	s.stripThread(t)
	s.stale = false
	pages, bare := s.lay(a.live)
	a.result.Pages, a.result.Bare = max(a.result.Pages, pages), max(a.result.Bare, bare+s.bareIn(a.live))
	if len(s.areas) == 0 {
		s.open = false
		a.noteBare(s)
		return
	}
	if s.at == 0 {
		a.end("no system calls can be made in it")
		s.areas = nil
		return
	}
	if s.actions == nil {
		a.readActions(t)
	}
	kept := s.areas[:0]
	for _, x := range s.areas {
		if _, ok := a.call(t, ptrace.CallMprotect, x.low, x.high-x.low, 0); ok {
			kept = append(kept, x)
		} else {
			a.result.Bare += (x.high - x.low) / pageSize
		}
	}
	s.areas, s.open = kept, false
	a.noteBare(s)
}

// unprotect opens all.
func (a *Auditor) unprotect(t *thread) {
	s := t.space
	if s.open {
		return
	}
	for _, x := range s.areas {
		a.call(t, ptrace.CallMprotect, x.low, x.high-x.low, uint64(x.prot))
	}
	s.open = true
}

// noteBare notes what is not protected, and of whose records no access is seen.
func (a *Auditor) noteBare(s *space) {
	const most = 1 << 12
	for _, r := range a.live {
		for i := range s.maps {
			at, end := max(r.low, s.maps[i].Start), min(r.high, s.maps[i].End)
			for _, x := range s.areas {
				if x.low > at && at < end {
					a.bare = append(a.bare, area{low: at, high: min(x.low, end)})
				}
				if x.high > at && x.low < end {
					at = x.high
				}
			}
			if at < end {
				a.bare = append(a.bare, area{low: at, high: end})
			}
		}
	}
	if len(a.bare) > most {
		a.bare = mergeAreas(a.bare)
	}
}

// ---- signals ----

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

// ---- system calls ----

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
