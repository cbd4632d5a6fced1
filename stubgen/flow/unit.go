package flow

import (
	"cmp"
	"slices"
	"sort"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// Program is the units of an object, and where control comes to them from outside.
type Program struct {
	obj      *stubgen.Object
	units    []Unit
	places   []place   // by address
	arrivals []arrival // by address, each once
	sites    []elfscan.CallSite
}

// Unit is a function with its cold parts, or a part that is of no function, or of
// several.
type Unit struct {
	Function int             // number in the object, of the function or the part
	Ranges   []elfscan.Range // the function's own, then those of its parts, by address
	Reason   ledger.Reason   // why there is no graph; ReasonNone if there is one
	Answers  bool            // who calls it may read the status flags that it leaves
}

// place is a range of a unit.
type place struct {
	elfscan.Range
	unit int32
}

// arrival is where control may come to from outside of a unit.
type arrival struct {
	at   uint64
	ways Ways
	sure bool // else it may be a number that looks like an address
}

// New looks at all functions of an object, with up to workers goroutines (0: one for
// each CPU). sites are those of elfscan.CallSites; without them the unwinder's ways are
// known only as far as the object tells.
func New(s *survey.Survey, sites []elfscan.CallSite, workers int) *Program {
	o := s.Object()
	p := &Program{obj: o, sites: sites}
	found := p.lookAll(workers)
	p.makeUnits(s, owners(s, found))
	p.findAnswers(found)
	p.arrive(found)
	return p
}

// Units lists the units, in the order of their functions.
func (p *Program) Units() []Unit { return p.units }

// lookAll gathers what functions refer to, each worker for itself.
func (p *Program) lookAll(workers int) []*look {
	looks := make([]*look, parallel.Workers(workers))
	for w := range looks {
		looks[w] = newLook(p.obj)
	}
	const grain = 256
	parallel.Ranges(len(p.obj.Functions), grain, workers, func(w, first, end int) {
		for i := first; i < end; i++ {
			looks[w].function(i)
		}
	})
	return looks
}

// several is the owner of a part that more than one function jumps to.
const several = -2

// owners finds whose the parts are: of the one function that jumps there, or that they
// jump into the middle of. It is -1 where nobody does.
func owners(s *survey.Survey, found []*look) []int {
	o := s.Object()
	owner := make([]int, len(o.Functions))
	for i := range owner {
		owner[i] = -1
	}
	claim := func(part, function int) {
		if part < 0 || function < 0 || !s.IsPart(part) || s.IsPart(function) || o.Functions[function].Excluded == ledger.ReasonPLT { // whose entries are one function
			return
		}
		if owner[part] == -1 {
			owner[part] = function
		} else if owner[part] != function {
			owner[part] = several
		}
	}
	for _, l := range found {
		for _, r := range l.refs {
			if r.ways != ByBranch {
				continue
			}
			to := within(o, r.to)
			claim(to, int(r.from))
			if to >= 0 && o.Functions[to].Addr != r.to && !r.call {
				claim(int(r.from), to)
			}
		}
	}
	return owner
}

// within is the function that an address lies in, -1 if there is none.
func within(o *stubgen.Object, addr uint64) int {
	i := o.FunctionAt(addr)
	if i < 0 || addr-o.Functions[i].Addr >= o.Functions[i].Size {
		return -1
	}
	return i
}

func (p *Program) makeUnits(s *survey.Survey, owner []int) {
	parts := map[int][]elfscan.Range{}
	for i, to := range owner {
		if to >= 0 {
			parts[to] = append(parts[to], bounds(&p.obj.Functions[i]))
		}
	}
	for i := range p.obj.Functions {
		f := &p.obj.Functions[i]
		if owner[i] >= 0 {
			continue
		}
		u := Unit{Function: i, Ranges: append([]elfscan.Range{bounds(f)}, parts[i]...)}
		switch {
		case f.Excluded != ledger.ReasonNone && f.Excluded != ledger.ReasonColdPart:
			u.Reason = f.Excluded
		case !s.IsAlone(i):
			u.Reason = ledger.ReasonUndecodable
		}
		for _, r := range u.Ranges {
			p.places = append(p.places, place{r, int32(len(p.units))})
		}
		p.units = append(p.units, u)
	}
	slices.SortFunc(p.places, func(a, b place) int { return cmp.Compare(a.Low, b.Low) })
}

func bounds(f *elfscan.Function) elfscan.Range {
	return elfscan.Range{Low: f.Addr, High: f.Addr + f.Size}
}

// UnitAt is the number of the unit that an address lies in, -1 if there is none.
func (p *Program) UnitAt(addr uint64) int {
	i := sort.Search(len(p.places), func(i int) bool { return p.places[i].Low > addr }) - 1
	if i < 0 || addr >= p.places[i].High {
		return -1
	}
	return int(p.places[i].unit)
}

// Contains reports whether an address lies in the unit.
func (u *Unit) Contains(addr uint64) bool {
	for _, r := range u.Ranges {
		if addr-r.Low < r.High-r.Low {
			return true
		}
	}
	return false
}

// Entry is where the unit begins.
func (u *Unit) Entry() uint64 { return u.Ranges[0].Low }
