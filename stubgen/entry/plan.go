// Package entry decides how each function entry of an object is patched: by a jump, a hop,
// a jump that a neighbour gives way to, the move of the whole body, or a trap; or why not
// at all.
package entry

import (
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// Sizes of bodies that are moved whole. A body beyond wholeBody gains little
// from running without a jump back; up to wholeBodyLoop it is still moved when
// it branches to its own entry or into its own window, which only moving it
// all can serve.
const (
	wholeBody     = 64
	wholeBodyLoop = 256
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

// planner plans the functions of one object, each by itself. It holds only scratch
// space: use one for each goroutine.
type planner struct {
	survey *survey.Survey
	obj    *stubgen.Object
	opt    Options
	walk   flagsWalk
}

func newPlanner(s *survey.Survey, opt Options) *planner {
	return &planner{survey: s, obj: s.Object(), opt: opt}
}

// plan decides about function i.
func (s *planner) plan(i int) Plan {
	if why := s.survey.NoEntry(i); why != ledger.ReasonNone {
		return Refuse(i, why)
	}
	start := s.survey.Start(i)
	body := s.obj.Code(start)
	if body == nil {
		return Refuse(i, ledger.ReasonNotMapped)
	}
	if body[0] == opInt3 {
		return Refuse(i, ledger.ReasonBreakpoint)
	}
	if why := s.window(i, start); why != ledger.ReasonNone {
		return Refuse(i, why)
	}
	p := Plan{Function: int32(i), Start: start}
	whole := s.planWhole(i, start, &p)
	if whole != ledger.ReasonNone || s.mustStay(&p, stubgen.WindowSize) != ledger.ReasonNone {
		if own, _ := s.survey.Targeted(i); own {
			return Refuse(i, ledger.ReasonBranchIntoWindow)
		}
		if why := s.planJump(i, start, stubgen.WindowSize, &p); why != ledger.ReasonNone {
			return Refuse(i, why)
		}
	}
	if !s.loopsLead(&p) {
		return Refuse(i, ledger.ReasonEntryLoop)
	}
	if why := s.mustStay(&p, stubgen.WindowSize); why != ledger.ReasonNone {
		return Refuse(i, why)
	}
	return s.finish(p)
}

// mustStay is why what p moves and overwrites must stay, ReasonNone if it need
// not. The window is as long as given.
func (s *planner) mustStay(p *Plan, window uint64) ledger.Reason {
	if s.survey.HasSite(p.Start, p.Start+uint64(p.Moved)) {
		return ledger.ReasonKernelSite
	}
	return s.survey.FixedIn(p.Start, p.Start+max(uint64(p.Moved), window))
}

// finish fills in what the count needs.
func (s *planner) finish(p Plan) Plan {
	if s.walk.live(s.obj, p.Start) {
		p.Form |= KeepsFlags
	}
	if s.opt.Threshold && (s.opt.Hot == nil || s.opt.Hot(int(p.Function))) {
		p.Form |= Checks
	}
	if s.opt.Redirectable {
		p.Form |= Redirectable | Checks
	}
	size := int(p.Size) + emit.CountSize(p.Has(KeepsFlags), p.Has(Checks), s.opt.Shared)
	p.Size = uint32(emit.WithLiterals(size, int(p.literals)))
	if p.Detour != nil {
		for i := range p.Detour.Evicted {
			e := &p.Detour.Evicted[i]
			e.Offset = p.Size
			p.Size += uint32(e.Size)
		}
	}
	return p
}

// window asks whether 5 bytes at start may be overwritten at all: they belong
// to the function or to the padding behind it, and nobody else arrives there.
func (s *planner) window(i int, start uint64) ledger.Reason {
	o := s.obj
	end := o.Functions[i].Addr + uint64(len(o.Body(i)))
	if i+1 < len(o.Functions) {
		next := o.Functions[i+1].Addr
		if next < start+stubgen.WindowSize && next < end {
			return ledger.ReasonEntryInWindow
		}
		if next < start+stubgen.WindowSize {
			return ledger.ReasonTooShort
		}
	}
	if end < start+stubgen.WindowSize && !padding(o, end, start+stubgen.WindowSize) {
		return ledger.ReasonTooShort
	}
	if _, others := s.survey.Targeted(i); others {
		return ledger.ReasonBranchIntoWindow
	}
	return ledger.ReasonNone
}

// padding reports whether [from, to) starts with whole padding instructions
// (NOPs of any length or int3) that cover it. An address that compilers align
// functions to is not taken for padding: an unknown function may start there.
func padding(o *stubgen.Object, from, to uint64) bool {
	var in x86.Inst
	for at := from; at < to; at += uint64(in.Len) {
		code := o.Code(at)
		if at%alignment == 0 || x86.Decode(code, &in) != nil {
			return false
		}
		if in.Kind != x86.Nop && code[0] != opInt3 {
			return false
		}
	}
	return true
}

const opInt3 = 0xcc

// alignment is what compilers align functions to.
const alignment = 16

// planWhole asks whether the whole body can run in the stub, and fills p.
func (s *planner) planWhole(i int, start uint64, p *Plan) ledger.Reason {
	f := &s.obj.Functions[i]
	length := uint64(len(s.obj.Body(i)))
	limit := uint64(wholeBody)
	if own, _ := s.survey.Targeted(i); own || len(s.survey.Loops(i)) > 0 {
		limit = wholeBodyLoop
		if !s.survey.Untouched(start+1, f.Addr+length) {
			return ledger.ReasonUnsupported // what arrives in the old body would come back to the entry
		}
	}
	switch {
	case length == 0, length > limit, f.LSDA, !s.survey.IsStraight(i):
		return ledger.ReasonUnsupported
	case i+1 < len(s.obj.Functions) && s.obj.Functions[i+1].Addr < f.Addr+length:
		return ledger.ReasonEntryInWindow // falling into the other entry is a call of it
	}
	moved := int(f.Addr + length - start)
	code := s.obj.Code(start)
	var in x86.Inst
	var extent emit.Extent
	var starts, targets offsets
	for at := 0; at < moved; at += int(in.Len) {
		if x86.Decode(code[at:], &in) != nil || !emit.Movable(&in, code[at:]) {
			return ledger.ReasonUndecodable
		}
		if s.obj.Go && !s.opt.KnownFaults && mayFault(&in, code[at:]) {
			return ledger.ReasonMayFault
		}
		starts.add(at)
		if off := in.BranchTarget(code[at:], start+uint64(at)) - start; off < uint64(moved) {
			targets.add(int(off))
		}
		extent.Add(s.obj, &in, code[at:], start+uint64(at))
	}
	if !targets.within(&starts) {
		return ledger.ReasonBranchIntoWindow // between two instructions: it cannot move along
	}
	if extent.Open() && moved < stubgen.WindowSize {
		return ledger.ReasonUnsupported // it would come back into the window
	}
	p.moves(ledger.TacticWholeBody, moved, &extent)
	return ledger.ReasonNone
}

// offsets is a set of offsets in a body that may move whole.
type offsets [wholeBodyLoop / 64]uint64

func (s *offsets) add(off int) { s[off/64] |= 1 << (off % 64) }

func (s *offsets) within(t *offsets) bool {
	for i := range s {
		if s[i]&^t[i] != 0 {
			return false
		}
	}
	return true
}

// planJump finds the displaced instructions: whole instructions from start
// that cover the window bytes, or fewer if one of them ends the flow.
func (s *planner) planJump(i int, start uint64, window int, p *Plan) ledger.Reason {
	code := s.obj.Code(start)
	f := &s.obj.Functions[i]
	end := int(f.Addr + f.Size - start) // behind it there is padding
	var in x86.Inst
	var extent emit.Extent
	for at := 0; ; {
		if x86.Decode(code[at:], &in) != nil || at < end && at+int(in.Len) > end {
			return ledger.ReasonUndecodable
		}
		if !emit.Movable(&in, code[at:]) {
			return ledger.ReasonUnsupported
		}
		if s.obj.Go && !s.opt.KnownFaults && mayFault(&in, code[at:]) {
			return ledger.ReasonMayFault
		}
		extent.Add(s.obj, &in, code[at:], start+uint64(at))
		if at += int(in.Len); at >= window || !extent.Open() {
			if at < window && (in.Kind == x86.Call || in.Kind == x86.CallInd) {
				return ledger.ReasonReturnInWindow
			}
			p.moves(ledger.TacticJump, at, &extent)
			return ledger.ReasonNone
		}
	}
}

// moves notes what runs in the stub.
func (p *Plan) moves(tactic ledger.Tactic, moved int, extent *emit.Extent) {
	p.Tactic, p.Moved, p.Size, p.literals = tactic, uint32(moved), uint32(extent.Code()), uint8(extent.Literals)
}

// loopsLead reports whether all branches of the function's own to its entry can
// lead past the count: a short branch does not reach the stub, and a jump table
// would have to change.
func (s *planner) loopsLead(p *Plan) bool {
	if s.survey.LoopsByTable(int(p.Function)) {
		return false
	}
	for _, site := range s.survey.Loops(int(p.Function)) {
		if !p.holds(site.Addr) && (site.Len == 0 || site.Rel8 || s.overlapsWindow(site)) {
			return false
		}
	}
	return true
}

// holds reports whether the instruction at addr runs in the stub.
func (p *Plan) holds(addr uint64) bool { return addr-p.Start < uint64(p.Moved) }

// Leads lists the branches that must lead into the stub of a counted function.
func Leads(s *survey.Survey, p *Plan) []Lead {
	if p.Detour != nil {
		return p.Detour.Leads
	}
	var all []Lead
	for _, site := range s.Loops(int(p.Function)) {
		if !p.holds(site.Addr) {
			all = append(all, Lead{Addr: site.Addr, To: p.Start, Len: site.Len, Host: NoHost})
		}
	}
	return all
}

// overlapsWindow reports whether the bytes of site are part of some window.
func (s *planner) overlapsWindow(site survey.Site) bool {
	end := site.Addr + uint64(site.Len)
	for j := s.obj.FunctionAt(end - 1); j >= 0; j-- {
		start := s.survey.Start(j)
		if start+stubgen.WindowSize+16 < site.Addr {
			return false
		}
		if start < end && site.Addr < start+stubgen.WindowSize {
			return true
		}
	}
	return false
}
