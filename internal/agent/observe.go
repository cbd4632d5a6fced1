package agent

import (
	"time"

	"github.com/dynprof/dynprof/internal/overhead"
	"github.com/dynprof/dynprof/internal/table/control"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// How often the program is looked at: soon after its start, then less and less often. While it
// takes no CPU time that becomes rare. The agent itself takes no more than a fiftieth of a CPU.
const (
	soonest = 5 * time.Millisecond
	usual   = 40 * time.Millisecond
	resting = 50 // times the time that a look takes
)

// observer has the blocks of functions counted by turns, so that it takes no more than a share
// of the program's CPU time (package overhead). A nil one does nothing.
type observer struct {
	t     *file.File
	store func(at int, value uint64) // into the table's header
	turn  func([]Turn) int
	spent func() time.Duration // CPU time of the program since it was asked last
	since func(time.Time) time.Duration

	choose   *overhead.Chooser
	roster   roster
	ever     []int // of the roster, those whose blocks have been counted
	calls    []uint64
	counts   []uint64 // of blocks, of those
	counters counters
	every    time.Duration
	failed   bool
}

// observe begins; nil if the program does not want it, or cannot be observed.
func (a *Agent) observe(s *control.Service) *observer {
	fi, err := s.File().Stat()
	if err != nil {
		return nil
	}
	t := file.New(s.File(), fi.Size())
	if t.ReadHead() != nil || t.Overhead == 0 {
		return nil
	}
	p := newProcesses(t)
	p.spent()
	return newObserver(t, s.Store, func(turns []Turn) int { return a.Turn(s.File(), turns) }, p.spent)
}

func newObserver(t *file.File, store func(int, uint64), turn func([]Turn) int, spent func() time.Duration) *observer {
	cost := overhead.CountCost
	if t.Flags&layout.FlagShared != 0 {
		cost = overhead.LockCountCost
	}
	return &observer{t: t, store: store, turn: turn, spent: spent, since: time.Since, every: soonest, choose: overhead.New(overhead.Bound(t.Overhead), cost)}
}

// patience is how long may be waited for something else.
func (o *observer) patience(most time.Duration) time.Duration {
	if o == nil || o.failed {
		return most
	}
	return min(most, o.every)
}

// look chooses anew.
func (o *observer) look() {
	if o == nil || o.failed {
		return
	}
	begin := time.Now()
	spent := o.spent()
	on, err := o.account(spent)
	if err != nil { // it was cut short: nobody knows what is counted
		o.failed, on = true, nil
	}
	o.apply(on)
	o.every = interval(o.every, o.since(begin), spent)
}

// interval is how long to wait after a look that took so long, behind so long a wait, in which
// the program has spent that CPU time.
func interval(last, took, spent time.Duration) time.Duration {
	next := usual
	if spent == 0 {
		next = look
	}
	return max(min(2*last, next), min(resting*took, look))
}

// meet adds the functions that have come.
func (o *observer) meet() error {
	asked, err := o.roster.more(o.t)
	o.choose.Add(asked)
	o.calls, o.counts = append(o.calls, make([]uint64, len(asked))...), append(o.counts, make([]uint64, len(asked))...)
	return err
}

// account reads the counts, tells the chooser, and notes the estimate in the table.
func (o *observer) account(spent time.Duration) (on []int, err error) {
	if err := o.meet(); err != nil {
		return nil, err
	}
	if err := o.counters.read(o.t); err != nil {
		return nil, err
	}
	for i := range o.roster.functions {
		o.calls[i] = o.counters.of(o.roster.functions[i].counter)
	}
	for _, i := range o.ever {
		o.counts[i] = 0
		for _, k := range o.roster.functions[i].blocks {
			o.counts[i] += o.counters.of(k)
		}
	}
	on = o.choose.Look(spent, o.calls, o.counts)
	o.store(layout.HdrObservingCost, uint64(o.choose.Cost))
	o.store(layout.HdrObservingTime, uint64(o.choose.Time))
	return on, nil
}

// apply turns switches. Those that are on are turned each time: they are off where counting
// was paused in between.
func (o *observer) apply(on []int) {
	for _, i := range on {
		f := &o.roster.functions[i]
		if f.shall = true; !f.was {
			f.was = true
			o.ever = append(o.ever, i)
		}
	}
	var turns []Turn
	for _, i := range o.ever {
		f := &o.roster.functions[i]
		switch {
		case f.shall:
			turns = append(turns, Turn{f.number, 1})
		case f.on:
			turns = append(turns, Turn{f.number, 0})
		}
		f.on, f.shall = f.shall, false
	}
	if len(turns) > 0 {
		o.turn(turns)
	}
}

// end notes what was counted last. The CPU time of that is not known any more.
func (o *observer) end() {
	if o != nil && !o.failed {
		o.account(0)
	}
}
