// Package entry decides how each function entry of an object is patched: by a jump, a hop,
// a jump that a neighbour gives way to, the move of the whole body, or a trap; or why not
// at all.
package entry

import (
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// Plan says how one function is patched, or why not. Addresses are link-time.
// There is one for each function, so it is kept small.
type Plan struct {
	Start    uint64 // first byte of the window
	Function int32  // index in Object.Functions
	Moved    uint32 // bytes from Start that run in the stub
	Size     uint32 // bytes of the stub
	Tactic   ledger.Tactic
	Reason   ledger.Reason // why Tactic is none
	Form     Form
	literals uint8   // that follow the code
	Detour   *Detour // nil: the window and rel32 loops are all
}

// Form is what a stub does besides.
type Form uint8

// What it may be.
const (
	KeepsFlags   Form = 1 << iota // the count keeps the status flags, which are live
	Checks                        // it checks a threshold
	Redirectable                  // calls can be sent to other code
)

// Has reports whether the stub does so.
func (p *Plan) Has(f Form) bool { return p.Form&f != 0 }

// Front is the bytes in front of a redirectable stub, 0 for others.
func (p *Plan) Front() int {
	if !p.Has(Redirectable) {
		return 0
	}
	return emit.FrontSize(p.Has(KeepsFlags))
}

// Lead is a branch that stays in place and must lead into the stub: a loop to
// the function's own entry behind the count, a branch between the bytes of the
// window to the copy of the instruction there.
type Lead struct {
	Addr   uint64 // link-time
	To     uint64 // link-time: where it leads now, the entry or in its window
	Island uint64 // where a short branch hops to, 0 for one with 32 bits
	Host   int32  // of the island
	Len    uint8  // bytes
	Wide   bool   // a short jmp with padding behind it, which becomes a long one
}

// Detour is what a plan needs besides its window.
type Detour struct {
	Island  uint64          // of a hop: where its short jump leads, and the long one stands
	Host    int32           // of the island
	Leads   []Lead          // what must lead into the stub
	Evicted []emit.Eviction // what makes room for islands
	Trap    bool            // the entry is an int3, which the trap handler takes to the stub
}

// NoHost is the Host of an island in padding or in an eviction's room. All others
// stand in the body of the function of that number, which has moved away: where that
// is not patched the island must not be either.
const NoHost int32 = -1

// Hosts lists the hosts of the islands of a plan.
func (p *Plan) Hosts() (all []int32) {
	if p.Detour == nil {
		return nil
	}
	if p.Detour.Host != NoHost {
		all = append(all, p.Detour.Host)
	}
	for _, l := range p.Detour.Leads {
		if l.Host != NoHost {
			all = append(all, l.Host)
		}
	}
	return all
}

// Spec is what the emitter has to know of the plan of a counted function of o.
func (p *Plan) Spec(o *stubgen.Object) emit.Spec {
	s := emit.Spec{
		Entry: o.Functions[p.Function].Addr, Start: p.Start,
		Moved: int(p.Moved), Size: int(p.Size), Front: p.Front(), KeepsFlags: p.Has(KeepsFlags),
	}
	if p.Detour != nil {
		s.Evicted = p.Detour.Evicted
	}
	return s
}

// Counted reports whether the function gets a stub.
func (p *Plan) Counted() bool { return p.Tactic != ledger.TacticNone }

// Refuse is the plan of a function that is not counted.
func Refuse(i int, why ledger.Reason) Plan { return Plan{Function: int32(i), Reason: why} }

// Options are what all plans of an object share.
type Options struct {
	Threshold    bool             // stubs check a threshold
	Hot          func(i int) bool // which of them do, asked for each function that has a plan; nil: all
	Redirectable bool             // calls can be sent to other code; all stubs check a threshold; not Shared
	Shared       bool             // all threads share the counters
	KnownFaults  bool             // a fault in a stub shows at its original address
	Stay         bool             // no function's instructions move for another's sake
	Traps        bool             // what no other tactic serves may be served by int3
}

// moves notes what runs in the stub.
func (p *Plan) moves(tactic ledger.Tactic, moved int, extent *emit.Extent) {
	p.Tactic, p.Moved, p.Size, p.literals = tactic, uint32(moved), uint32(extent.Code()), uint8(extent.Literals)
}

// RunsCopy has all of the function run as a copy of at most so many bytes behind its count, with
// all that a detour would have led there. Moved is the bytes of the instructions that the window
// overwrites: that of a hop, if it has one, as KeepsHop says.
func (p *Plan) RunsCopy(moved, size int, hop, shared bool) {
	p.Tactic, p.Moved, p.literals = ledger.TacticJump, uint32(moved), 0
	if hop {
		p.Tactic, p.Detour = ledger.TacticHop, &Detour{Island: p.Detour.Island, Host: NoHost}
	} else {
		p.Detour = nil
	}
	p.Size = uint32(emit.CountSize(p.Has(KeepsFlags), p.Has(Checks), shared) + size)
}

// KeepsHop reports whether a copy may be come to by the hop of the plan: its island is in padding.
func (p *Plan) KeepsHop() bool {
	d := p.Detour
	return p.Tactic == ledger.TacticHop && d != nil && d.Island != 0 && d.Host == NoHost && len(d.Evicted) == 0
}

// Window is how many bytes a jump, or a hop, at the entry overwrites.
func (p *Plan) Window() uint64 {
	if p.Tactic == ledger.TacticHop {
		return hopSize
	}
	return stubgen.WindowSize
}

// Holds reports whether the instruction at addr runs in the stub.
func (p *Plan) Holds(addr uint64) bool { return addr-p.Start < uint64(p.Moved) }

// Leads lists the branches that must lead into the stub of a counted function.
func Leads(s *survey.Survey, p *Plan) []Lead {
	if p.Detour != nil {
		return p.Detour.Leads
	}
	var all []Lead
	for _, site := range s.Loops(int(p.Function)) {
		if !p.Holds(site.Addr) {
			all = append(all, Lead{Addr: site.Addr, To: p.Start, Len: site.Len, Host: NoHost})
		}
	}
	return all
}
