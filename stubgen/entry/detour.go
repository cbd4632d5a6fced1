package entry

import (
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// hopSize is the length of the `jmp rel8` of a hop.
const hopSize = 2

// Plans plans all functions with up to workers goroutines (0: one for each
// CPU). choose, which may be nil, says which functions are to be counted.
//
// A first round plans each function by itself. A second one, in order of
// address, looks at those that were refused for want of room: it uses what the
// first leaves free, and where that is not enough moves neighbours.
func Plans(s *survey.Survey, opt Options, workers int, choose func(i int) bool) []Plan {
	plans, flags := make([]Plan, len(s.Object().Functions)), make(passing, len(s.Object().Functions))
	parallel.Ranges(len(plans), 256, workers, func(_, first, end int) {
		planner := newPlanner(s, opt, flags)
		for i := first; i < end; i++ {
			flags.look(s, &planner.walk, i)
			plans[i] = planner.plan(i)
			if choose != nil && !plans[i].Reason.Excluded() && !choose(i) {
				plans[i] = Refuse(i, ledger.ReasonNotSelected)
			}
		}
	})
	planner := newPlanner(s, opt, flags)
	for _, i := range flags.keep(s) {
		if plans[i].Counted() {
			plans[i] = planner.plan(i)
		}
	}
	d := detours{
		planner: planner, survey: s, obj: s.Object(), plans: plans, workers: workers,
		pinned: map[int32][]uint64{}, hosts: map[int32]*host{}, evicted: map[uint64][]emit.Eviction{},
	}
	for i := range plans {
		if wantsRoom(plans[i].Reason) {
			d.plan(i)
		}
	}
	if opt.Traps {
		d.trapAll()
	}
	return plans
}

// wantsRoom reports whether a function refused for that reason may be counted
// by a detour.
func wantsRoom(why ledger.Reason) bool {
	switch why {
	case ledger.ReasonTooShort, ledger.ReasonBranchIntoWindow, ledger.ReasonEntryInWindow,
		ledger.ReasonReturnInWindow, ledger.ReasonEntryLoop, ledger.ReasonKernelSite,
		ledger.ReasonBytesChanged, ledger.ReasonRestartable:
		return true
	}
	return false
}

// detours is the second round.
type detours struct {
	planner *planner
	survey  *survey.Survey
	obj     *stubgen.Object
	plans   []Plan
	workers int
	free    *freeText
	pinned  map[int32][]uint64 // by function: branches of it that lead into other functions' stubs

	hosts   map[int32]*host            // those looked at lately
	evicted map[uint64][]emit.Eviction // by address / evictBucket

	// Of the attempt at hand.
	taken    []freeRun
	detour   *Detour
	window   uint64
	mayEvict bool
	mayTrap  bool
}

// plan tries to count function i: by the window of a jump with branches led
// into the stub, or by a hop; then by the same with neighbours evicted.
func (d *detours) plan(i int) {
	for k, window := range []uint64{stubgen.WindowSize, hopSize, stubgen.WindowSize, hopSize} {
		d.mayEvict = k >= 2
		if d.mayEvict && d.planner.opt.Stay {
			return
		}
		if d.try(i, window) {
			return
		}
	}
}

// try plans function i with a window of so many bytes, if that can be.
func (d *detours) try(i int, window uint64) bool {
	if d.free == nil {
		d.free = newFreeText(d.survey, d.plans, d.workers)
	}
	p, ok := d.attempt(i, window)
	if !ok {
		for _, r := range d.taken {
			d.free.give(r)
		}
		return false
	}
	for _, l := range d.detour.Leads {
		d.pin(i, l.Addr)
	}
	for _, e := range d.detour.Evicted {
		d.keep(e)
		if e.To != 0 {
			d.pin(i, e.Addr)
		}
	}
	d.plans[i] = d.planner.finish(p)
	return true
}

// pin notes that what is at addr must not move with its function, unless that
// is i.
func (d *detours) pin(i int, addr uint64) {
	if j := d.obj.FunctionAt(addr); j >= 0 && j != i {
		d.pinned[int32(j)] = append(d.pinned[int32(j)], addr)
	}
}

// attempt plans function i with a window of so many bytes.
func (d *detours) attempt(i int, window uint64) (Plan, bool) {
	d.taken, d.detour, d.window = d.taken[:0], &Detour{Host: NoHost}, window
	start := d.survey.Start(i)
	p := Plan{Function: int32(i), Start: start, Detour: d.detour}
	if !d.room(i, start, window) || d.survey.LoopsByTable(i) {
		return p, false
	}
	whole := d.planner.planWhole(i, start, &p) == ledger.ReasonNone
	if !whole || d.planner.mustStay(&p, window) != ledger.ReasonNone {
		if d.planner.planJump(i, start, int(window), &p) != ledger.ReasonNone {
			return p, false
		}
	}
	if d.planner.mustStay(&p, window) != ledger.ReasonNone || d.movesPinned(&p) || !d.lead(&p, window) {
		return p, false
	}
	if window == hopSize {
		at, host, ok := d.island(start + hopSize)
		if !ok {
			return p, false
		}
		p.Tactic, p.Detour.Island, p.Detour.Host = ledger.TacticHop, at, host
	}
	d.detour.Trap = window == trapSize
	switch {
	case d.detour.Trap, d.mayTrap && len(d.detour.Evicted) > 0:
		p.Tactic = ledger.TacticTrap
	case len(d.detour.Evicted) > 0:
		p.Tactic = ledger.TacticEvict
	}
	return p, true
}

// room asks whether the window belongs to the function or to padding.
func (d *detours) room(i int, start, window uint64) bool {
	end := d.obj.Functions[i].Addr + uint64(len(d.obj.Body(i)))
	if i+1 < len(d.obj.Functions) && d.obj.Functions[i+1].Addr < start+window {
		return false
	}
	if end >= start+window {
		return true
	}
	if window == trapSize {
		return false // an empty function
	}
	return d.free.claim(end, start+window) && d.took(freeRun{end, start + window, NoHost})
}

func (d *detours) took(r freeRun) bool {
	d.taken = append(d.taken, r)
	return true
}

// movesPinned reports whether p moves a branch that stays in place for another
// function's sake.
func (d *detours) movesPinned(p *Plan) bool {
	for _, addr := range d.pinned[p.Function] {
		if p.Holds(addr) {
			return true
		}
	}
	return false
}
