package translate

import (
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// Pair writes two copies of a unit, with counters and without, and a switch that leads into one
// of them (emit.Switch): it is an emit.Copy. Where accesses are recorded that with counters is two by
// itself, of which nothing leads to the slow one but the other.
type Pair struct {
	*Writer // of that with counters
	plain   *Writer
	sw      emit.Switch
}

// SizeOfPair is the most bytes that a Pair takes behind its function's count.
func (c *Code) SizeOfPair(o *stubgen.Object, shared bool) int {
	size := c.layOut(o, shared, true) + c.uncounted(o).layOut(o, shared, true) + emit.SwitchSize(1+len(c.Home.Landings))
	if c.Slow != nil {
		size += c.Slow.layOut(o, shared, false)
	}
	return size
}

// uncounted is the same copy without counters. Executions of loops whose trips are counted are
// forgotten there: it does not see all of their trips.
func (c *Code) uncounted(o *stubgen.Object) *Code {
	plain := Lower(c.Home)
	plain.RebuildTables(o)
	none := func(int) int32 { return NoCounter }
	plain.CountAs(none, none, NoCounter)
	plain.forgetTrips(c)
	return plain
}

// NewPair writes the copy that w does, and one without counters. On says which of them runs at
// first, rare that the one without counters is the first, which is come to without a jump.
func NewPair(w *Writer, on, rare bool) *Pair {
	p := &Pair{Writer: w, plain: NewWriter(w.code.uncounted(w.obj), w.obj, w.counter), sw: emit.Switch{On: on, Rare: rare}}
	for _, c := range []*Code{p.code, p.plain.code} {
		c.layOut(w.obj, w.counter.Shared != 0, true)
	}
	return p
}

// WriteCopy implements emit.Copy.
func (p *Pair) WriteCopy(a *x86.Asm, runs *emit.Runs) {
	g := p.code.Home.Graph
	slots, leads := make([]x86.RunAddr, len(g.Blocks)), []int{g.Entry} // by block; by slot: block
	lands := make([]bool, len(g.Blocks))
	for _, l := range p.code.Home.Landings {
		lands[g.BlockOf(l.Inst)] = true
	}
	slot := func(k int) {
		if lands[k] && slots[k] == 0 {
			slots[k] = p.sw.Slot(g.Addr(&g.Blocks[k]))
			leads = append(leads, k)
		}
	}
	first, second := p.Writer, p.plain
	if p.sw.Rare {
		first, second = second, first
	}
	p.sw.Begin(a, runs, p.shown(g.Blocks[g.Entry].First))
	first.inFront = slot
	first.write(a, runs)
	for k, to := range slots { // what others go on at from what is in front of it
		if lands[k] && to == 0 {
			slot(k)
			a.Jmp(first.landing(k))
			runs.Left(emit.JumpSize)
		}
	}
	first.writeSlow(a, runs)
	p.sw.Second()
	second.write(a, runs)
	second.writeSlow(a, runs)
	to := make([]x86.RunAddr, len(leads))
	for i, k := range leads {
		if to[i] = a.Place(second.landing(k)); i == 0 {
			to[i] = a.Place(second.begin)
		}
	}
	p.sw.End(to)
	p.lead(func(inst int32) x86.RunAddr { return slots[g.BlockOf(inst)] })
	p.Fixes = slices.Concat(first.Fixes, second.Fixes)
}
