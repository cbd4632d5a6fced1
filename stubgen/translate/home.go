package translate

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// planner finds what stays home of one unit.
type planner struct {
	g    *flow.Graph
	open uint64 // where the bytes end that the patch of the entry overwrites
	land []bool // by instruction: control may come to its old place
	stay []bool // it runs there
	more []bool // the run in front of it goes on there, though there is room: for want of islands
	asks []bool // what a run jumps to
	runs []Run
	bad  bool
	lone int32 // the landing that found no island, -1 if all have
}

// PlanHome says what stays home of a unit, or why that cannot be: there is a place that
// must lead into the copy and has no room for it, or where a call must stay.
func PlanHome(g *flow.Graph) (*Home, ledger.Reason) { return PlanHomeBehind(g, WindowEnd(g)) }

// PlanHomeBehind does so where the patch of the entry overwrites what is in front of open.
func PlanHomeBehind(g *flow.Graph, open uint64) (*Home, ledger.Reason) {
	n := len(g.Insts)
	p := &planner{g: g, land: make([]bool, n), stay: make([]bool, n), more: make([]bool, n), asks: make([]bool, n)}
	p.open = open
	for range mostTries {
		if h, why := p.plan(); h != nil || p.lone < 0 || !p.makeRoom() {
			return h, why
		}
	}
	return nil, ledger.ReasonTooShort
}

// mostTries bounds how often a unit is planned.
const mostTries = 100

// plan says what stays home, with the runs that go on for others' sake.
func (p *planner) plan() (*Home, ledger.Reason) {
	clear(p.land)
	clear(p.asks)
	for k := range p.g.Blocks {
		if b := &p.g.Blocks[k]; b.Entered != 0 {
			p.land[b.First] = true
		}
	}
	for again := true; again; { // runs may ask for landings in front of them
		again = p.findRuns()
	}
	return p.finish()
}

// makeRoom has a run go on where it came back to the copy, so that this needs no room: at the
// landing that found no island, or at the next one that may have taken it. It reports false if
// there is none.
func (p *planner) makeRoom() bool {
	at, best := p.g.Insts[p.lone].Addr, int32(-1)
	distance := func(i int32) uint64 { return max(at, p.g.Insts[i].Addr) - min(at, p.g.Insts[i].Addr) }
	for i := range p.runs {
		if k := p.runs[i].Resume; k >= 0 && distance(k) <= islandReach && (best < 0 || distance(k) < distance(best)) && p.goOn(k) >= 0 {
			best = k
		}
	}
	if best < 0 {
		return false
	}
	for i := best; i < p.goOn(best); i++ {
		p.more[i] = true
	}
	return true
}

// islandReach is how far a landing may be from its island, about.
const islandReach = 128

// goOn is where a run ends that goes on at instruction first, which it came back to the copy at;
// -1 if it must not: somebody else comes there, or how often it runs could not be told.
func (p *planner) goOn(first int32) int32 {
	for i := first; ; i++ {
		if i > first && !p.goesOn(i) {
			return -1
		}
		in := &p.g.Insts[i]
		entered := p.asks[i] || p.g.Blocks[p.g.BlockOf(i)].Entered != 0 && p.g.Blocks[p.g.BlockOf(i)].First == i
		switch {
		case entered && i > first, staysHome(in) && i > first:
			return i
		case entered, p.inWindow(in), in.Kind == x86.Jcc, in.Kind == x86.Loop, p.g.Target(in) >= 0:
			return -1
		case leavesFor(in):
			return i + 1
		}
	}
}

// WindowEnd is one past what the patch of the entry overwrites, if it is a jump.
func WindowEnd(g *flow.Graph) uint64 {
	first := &g.Insts[g.Blocks[g.Entry].First]
	if first.Kind == x86.Endbr {
		return first.End() + stubgen.WindowSize
	}
	return first.Addr + stubgen.WindowSize
}

// inWindow reports whether an instruction begins where the entry is overwritten.
func (p *planner) inWindow(in *flow.Inst) bool {
	return in.Addr-p.g.Unit.Entry() < p.open-p.g.Unit.Entry()
}

// findRuns finds the runs, and reports whether more places have become landings.
func (p *planner) findRuns() (more bool) {
	p.runs, p.bad = p.runs[:0], false
	clear(p.stay)
	for i := range p.g.Insts {
		if !staysHome(&p.g.Insts[i]) || p.stay[i] {
			continue
		}
		r, asked := p.run(int32(i))
		more = more || asked
		p.runs = append(p.runs, r)
		for k := r.First; k < r.End; k++ {
			p.stay[k] = k > r.First || !r.Pushed
		}
		if r.Resume >= 0 {
			p.land[r.Resume] = true
		}
	}
	return more
}

func staysHome(in *flow.Inst) bool { return in.Calls() || in.Kind == x86.Syscall }

// run finds how far the run from instruction first on must go. asked reports that it
// jumps to places in the unit that were no landings.
func (p *planner) run(first int32) (r Run, asked bool) {
	in := &p.g.Insts[first]
	r = Run{First: first, End: first + 1, Resume: -1, Pushed: p.inWindow(in) || p.land[first] && in.Calls()}
	for p.goesOn(r.End) {
		if in := &p.g.Insts[r.End]; p.land[r.End] || p.room(r.End) >= shortSize && !staysHome(in) && !p.more[r.End] {
			r.Resume = r.End
			return r, asked
		}
		if p.g.Insts[r.End].Kind == x86.Jcc || p.g.Insts[r.End].Kind == x86.Loop {
			p.bad = true // how often what is behind it runs could not be told
			return r, asked
		}
		asked = p.ask(&p.g.Insts[r.End]) || asked
		r.End++
		if leavesFor(&p.g.Insts[r.End-1]) {
			return r, asked
		}
	}
	return r, asked
}

// goesOn reports whether instruction i is what runs behind the one in front of it.
func (p *planner) goesOn(i int32) bool {
	return int(i) < len(p.g.Insts) && p.g.Insts[i].Addr == p.g.Insts[i-1].End()
}

// room is the bytes at the old place of instruction i up to the next that stays, or that
// leads into the copy; at most those of a jump.
func (p *planner) room(i int32) int {
	n := 0
	for k := i; n < jumpSize; k++ {
		if k > i && (!p.goesOn(k) || p.land[k] || staysHome(&p.g.Insts[k])) {
			break
		}
		n += int(p.g.Insts[k].Len)
	}
	return n
}

// leavesFor reports whether nothing runs behind an instruction.
func leavesFor(in *flow.Inst) bool {
	switch in.Kind {
	case x86.Ret, x86.Jmp, x86.JmpInd, x86.Trap:
		return true
	}
	return false
}

// ask makes a landing of where an instruction of a run jumps to in the unit.
func (p *planner) ask(in *flow.Inst) (more bool) {
	switch in.Kind {
	case x86.Jcc, x86.Jmp, x86.Loop:
	default:
		return false
	}
	to := p.g.Target(in)
	if to == int(p.g.Blocks[p.g.Entry].First) {
		p.bad = true // it would count as a call
	}
	if to >= 0 {
		p.asks[to] = true
	}
	if to >= 0 && !p.land[to] {
		p.land[to] = true
		return true
	}
	return false
}

// finish gives the landings their jumps.
func (p *planner) finish() (*Home, ledger.Reason) {
	h := &Home{Graph: p.g, Open: p.open, Runs: slices.Clone(p.runs)}
	p.lone = -1
	if p.bad {
		return nil, ledger.ReasonTooShort
	}
	for i, stays := range p.stay { // but for a run's first, which is pushed, nothing runs where the entry is overwritten
		if stays && p.inWindow(&p.g.Insts[i]) {
			return nil, ledger.ReasonReturnInWindow
		}
	}
	var short []int32
	taken := p.taken()
	for i, land := range p.land {
		if !land || i == int(p.g.Blocks[p.g.Entry].First) { // the entry has a stub of its own
			continue
		}
		in, room := &p.g.Insts[i], p.room(int32(i))
		switch {
		case p.stay[i], room < shortSize:
			return nil, ledger.ReasonTooShort
		case p.inWindow(in):
			return nil, ledger.ReasonReturnInWindow
		case room < jumpSize:
			short = append(short, int32(i))
			taken = append(taken, held{in.Addr, in.Addr + shortSize})
		default:
			h.Landings = append(h.Landings, Landing{Inst: int32(i)})
			taken = append(taken, held{in.Addr, in.Addr + jumpSize})
		}
	}
	slices.SortFunc(taken, func(a, b held) int { return cmp.Compare(a.low, b.low) })
	for _, i := range short {
		at, ok := p.island(&taken, p.g.Insts[i].Addr)
		if !ok {
			p.lone = i
			return nil, ledger.ReasonTooShort
		}
		h.Landings = append(h.Landings, Landing{Inst: i, Island: at})
	}
	slices.SortFunc(h.Landings, func(a, b Landing) int { return cmp.Compare(a.Inst, b.Inst) })
	return h, ledger.ReasonNone
}
