// Package harvest takes the pages that a program touches while it runs, in slices of time, and
// writes them beside its table (docs/heat.md).
package harvest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

const (
	often   = 500 * time.Microsecond // at first, and longer as slices are made one
	soon    = 2 * time.Millisecond   // before the program starts
	longest = 100 * time.Millisecond // slices of pages are as long at most, in the life of a program,
	longer  = time.Second            // and of smaller granules, where looking takes long

	// part is how much of the time it takes: one in so many, and at first as much as it needs, as
	// most programs end soon.
	part  = 40
	first = 50 * time.Millisecond

	whoSeldom = 10 * time.Second // who touched what is told as often at least
)

// Harvester takes what is in a shadow.
type Harvester struct {
	shadow *heat.Shadow
	tables func() []*find.Entry // of the run, so far
	begun  time.Time            // when the program did nothing yet
	stop   chan struct{}
	once   sync.Once
	done   chan struct{}
	pid    atomic.Int32 // of the program; 0: not known, or it has become another
	left   atomic.Bool  // that has been said

	had      bool // the program has the shadow
	ran      bool // it has done something
	log      heat.Log
	opening  chan *opened  // nil: nobody opens a table
	opened                 // the zero value: none is open yet
	early    []heat.Slice  // those before that: how much had run by then is not known
	counting heat.Counting // of the last slice; 0: there is none
	idle     heat.Slice    // in which nothing happened, behind that; without Counting there is none
	pauses   changes       // before what is taken now was last taken
	process  process
	mappings mappings
	who      who
	blocks   blocks
	executed uint64 // by the last slice's end
	err      error
}

// changes is how often counting was paused or went on, as layout.HdrPauses has it.
type changes struct {
	n     uint32
	known bool
}

// opened is a table, and what has run by it.
type opened struct {
	table    *table.Table
	progress *table.Progress
}

// Start begins to harvest. Whatever fails, the program runs. Pid is its number, if it is known: what
// the process has done so far was another's.
func Start(shadow *heat.Shadow, tables func() []*find.Entry, pid int) *Harvester {
	h := &Harvester{shadow: shadow, tables: tables, begun: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	h.process.look(int32(pid), &heat.Slice{})
	h.Watch(pid)
	h.mappings.shadow = shadow
	h.log.Granule, h.log.Apart = shadow.Granule, uint64(often)
	h.log.Threads, h.log.Code = shadow.ByThread(), shadow.ByCode()
	h.blocks.start(shadow)
	go h.run()
	return h
}

// spent is the CPU time that this thread has taken.
func spent() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if syscall.Getrusage(thread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Watch tells the number of the program, which runs.
func (h *Harvester) Watch(pid int) { h.pid.Store(int32(pid)) }

// Leave says that the process has gone on as another program: what is still touched is touched by
// children that were forked before.
func (h *Harvester) Leave() {
	h.left.Store(true)
	h.pid.Store(0)
	h.shadow.Leave()
}

// run takes slices until that is stopped, and a last one. It waits for longer while nothing
// happens.
func (h *Harvester) run() {
	defer close(h.done)
	runtime.LockOSThread() // whose CPU time is looked at
	defer runtime.UnlockOSThread()
	for wait, ended := often, false; !ended; {
		select {
		case <-h.stop:
			ended = true
		case <-time.After(wait):
		}
		if h.had = h.had || h.shadow.Had(); !h.had {
			continue
		}
		h.open(ended)
		happened := h.take()
		h.seeMappings()
		h.who.tell(h, happened)
		h.blocks.tell(h, happened)
		switch {
		case happened:
			wait = time.Duration(min(h.log.Apart, uint64(longest)))
		case h.table == nil:
			wait = soon
		case h.left.Load():
			wait = min(2*wait, longer)
		default:
			wait = min(2*wait, longest/2)
		}
		if over := part*(spent()-first) - time.Since(h.begun); over > wait {
			wait = min(over, h.most())
		}
	}
	for i := range h.early {
		h.log.Add(&h.early[i])
	}
	if h.idle.Counting == heat.CountingOff {
		h.addIdle()
	}
	if h.table != nil {
		h.log.Limit(h.progress.Executed)
		h.table.Close()
	}
}

// tells reports whether it is known who touched what.
func (h *Harvester) tells() bool { return h.shadow.ByThread() || h.shadow.ByCode() }

// who is when the file was told who has touched what.
type who struct {
	told  time.Time
	next  time.Duration // behind that
	isNew bool          // something was touched since
}

// tell tells it now and then, as all of it is written each time.
func (w *who) tell(h *Harvester, happened bool) {
	w.isNew = w.isNew || happened
	if h.tells() && w.isNew && h.log.IsOpen() && time.Since(w.told) > w.next {
		h.log.Touched(h.shadow)
		w.told, w.next, w.isNew = time.Now(), min(max(tellOften, 2*w.next), whoSeldom), false
	}
}

// most is how long slices are at most.
func (h *Harvester) most() time.Duration {
	if h.shadow.Granule < heat.Page {
		return longer
	}
	return longest
}

// Stop ends it, when the program has ended. The table is not open any more.
func (h *Harvester) Stop() {
	h.once.Do(func() { close(h.stop) })
	<-h.done
}

// Write writes all beside a table, whose nonce is given, when it has been stopped.
func (h *Harvester) Write(path string, nonce [16]byte) error {
	if !h.had {
		return nil // it said so when the program started
	}
	if h.tells() {
		h.log.Touched(h.shadow)
	}
	maps, err := h.mappings.end()
	if err == nil {
		err = errors.Join(h.err, h.log.Close(path, nonce, maps), h.blocks.end(h, path, nonce))
	}
	if err != nil {
		return fmt.Errorf("touched memory is not all shown: %w", err)
	}
	return nil
}

// take takes a slice, and reports whether there was anything in it.
func (h *Harvester) take() bool {
	s := heat.Slice{Parts: 1}
	before := h.changes()
	h.blocks.look()
	s.Ranges, h.err = h.shadow.Take(nil)
	h.mappings.touched(s.Ranges)
	s.Ranges = heat.Union(s.Ranges, h.executedGranules())
	s.Counting = h.countingSince(h.pauses)
	h.pauses = before
	if h.progress != nil {
		s.Executed = max(h.progress.Executed, h.executed)
	}
	if len(s.Ranges) == 0 && s.Executed == h.executed {
		if !h.ran {
			h.begun = time.Now()
		}
		h.rest(s.Counting)
		return false
	}
	if h.idle.Counting != s.Counting {
		h.addIdle()
	}
	h.idle = heat.Slice{} // it is in this one
	h.ran, h.executed = true, s.Executed
	s.Time = uint64(time.Since(h.begun))
	h.process.look(h.pid.Load(), &s)
	if h.progress == nil {
		h.early = append(h.early, s)
		return true
	}
	h.addEarly(&s)
	h.add(&s)
	return true
}

// rest notes that nothing happened. That is a slice only if it is another as to counting than those
// around it: so what is off is not in one with what is on.
func (h *Harvester) rest(counting heat.Counting) {
	if h.counting == 0 {
		return // it does not yet run, or is not known
	}
	if h.idle.Counting != counting {
		h.addIdle()
	}
	h.idle = heat.Slice{Executed: h.executed, Time: uint64(time.Since(h.begun)), Resident: h.process.resident, Parts: 1, Counting: counting, Threads: h.process.threads}
	if counting != h.counting { // who watches shall know
		h.addIdle()
	}
}

// addIdle adds a slice in which nothing happened, if there is one.
func (h *Harvester) addIdle() {
	if h.idle.Counting != 0 {
		h.add(&h.idle)
		h.idle = heat.Slice{}
	}
}

func (h *Harvester) add(s *heat.Slice) {
	h.counting = s.Counting
	h.log.Add(s)
}

// changes is how often counting was paused or went on until now.
func (h *Harvester) changes() changes {
	if h.table == nil {
		return changes{}
	}
	n, err := h.table.U32(layout.HdrPauses)
	return changes{n, err == nil}
}

// countingSince says whether counting was on since there were so many changes. Of what cannot be
// known it was both.
func (h *Harvester) countingSince(before changes) heat.Counting {
	if h.table == nil {
		return 0 // addEarly knows
	}
	paused, err := h.table.U32(layout.HdrPaused)
	now := h.changes()
	switch {
	case now.known && now.n == 0: // since the program's start
		return heat.CountingOn
	case err != nil || !now.known || !before.known || now != before || now.n%2 != 0:
		return heat.CountingOn | heat.CountingOff
	case paused != 0:
		return heat.CountingOff
	}
	return heat.CountingOn
}

// addEarly adds the slices before the first one of which it is known how much had run by its
// end: of these that is as if the program had run evenly.
func (h *Harvester) addEarly(known *heat.Slice) {
	for i := range h.early {
		s := &h.early[i]
		s.Counting = known.Counting
		s.Executed = uint64(float64(known.Executed) * float64(s.Time) / float64(max(known.Time, 1)))
		h.log.Add(s)
	}
	h.early = nil
}

// open opens the table as soon as it is there, and again when there is more in it. That takes
// longer than a slice, so that somebody else does it, who is waited for at the end only.
func (h *Harvester) open(ended bool) {
	if h.opening != nil {
		var o *opened
		if ended {
			o = <-h.opening
		} else {
			select {
			case o = <-h.opening:
			default:
				return
			}
		}
		h.opening = nil
		h.have(o)
	}
	if h.table != nil && !h.progress.Grown() {
		return
	}
	if ended {
		h.have(h.openTable(h.table))
		return
	}
	h.opening = make(chan *opened, 1)
	go func(old *table.Table, done chan<- *opened) { done <- h.openTable(old) }(h.table, h.opening)
}

// have goes on with a table; nil: there is none yet.
func (h *Harvester) have(o *opened) {
	if o == nil {
		return
	}
	if h.table != nil {
		o.progress.GoOn(h.progress)
		h.table.Close()
	}
	h.opened = *o
	h.mappings.of(o.table)
	if h.log.IsOpen() {
		return
	}
	if maps, err := h.shadow.Maps(); err == nil {
		maps.MarkOurs(h.mappings.by())
		h.log.Open(h.table.Path(), h.table.Nonce, maps) // an error is told at the end, if it is still there
	}
}

// seeMappings finds out what the program has mapped meanwhile. Until somebody says who that is, its
// table does.
func (h *Harvester) seeMappings() {
	pid := int(h.pid.Load())
	if pid == 0 && h.table != nil && !h.left.Load() {
		pid = int(h.table.Header.Pid)
	}
	h.mappings.see(pid, h.begun, h.process.resident)
	h.mappings.tell(&h.log)
}

// openTable opens a table again, or the program's, if it is there.
func (h *Harvester) openTable(old *table.Table) *opened {
	path := ""
	if old != nil {
		path = old.Path()
	} else if e := find.WithNonce(h.tables(), h.shadow.Table()); e != nil {
		path = e.Path
	}
	if path == "" {
		return nil
	}
	t, err := table.Open(path)
	if err != nil {
		return nil
	}
	p, err := t.Progress()
	if err != nil || old != nil && old.Nonce != t.Nonce {
		t.Close()
		return nil
	}
	return &opened{t, p}
}

// executedGranules is those of blocks that have run since the last slice, by address.
func (h *Harvester) executedGranules() []heat.Range {
	if h.progress == nil {
		return nil
	}
	var all []heat.Range
	h.progress.Next(func(b *table.Block) { // on an error these are told without their slice
		if r, ok := h.shadow.OfBlock(h.table.Objects[h.table.Functions[b.Function].Object].Bias+b.Address, b.Size); ok {
			all = append(all, r)
		}
	})
	return heat.Flat(all)
}
