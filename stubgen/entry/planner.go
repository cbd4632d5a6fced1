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

// planner plans the functions of one object, each by itself. It holds only scratch
// space: use one for each goroutine.
type planner struct {
	survey *survey.Survey
	obj    *stubgen.Object
	opt    Options
	walk   survey.FlagsWalk
	flags  passing
}

// newPlanner makes a planner that shares with others what is known of flags.
func newPlanner(s *survey.Survey, opt Options, flags passing) *planner {
	return &planner{survey: s, obj: s.Object(), opt: opt, flags: flags}
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
	if s.flags.look(s.survey, &s.walk, int(p.Function))&reads != 0 {
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
		pc := start + uint64(at)
		if s.neverLeaves(&in, code[at:], start, uint64(at)) || at > 0 && at < stubgen.WindowSize && s.obj.MayBeHeld(pc, pc+1) {
			return ledger.ReasonUnsupported
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

// neverLeaves reports whether the instruction at start+at closes a loop that would run in the
// stub alone. In Go that would be one that is never preempted: a collection of garbage would
// wait for it, and whatever it waits for for that.
func (s *planner) neverLeaves(in *x86.Inst, code []byte, start, at uint64) bool {
	return s.obj.Go && in.Kind != x86.Call && in.BranchTarget(code, start+at)-start <= at
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
		if s.neverLeaves(&in, code[at:], start, uint64(at)) {
			return ledger.ReasonEntryLoop
		}
		if pc := start + uint64(at); at > 0 && s.obj.MayBeHeld(pc, pc+1) {
			return ledger.ReasonBranchIntoWindow
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

// loopsLead reports whether all branches of the function's own to its entry can
// lead past the count: a short branch does not reach the stub, and a jump table
// would have to change.
func (s *planner) loopsLead(p *Plan) bool {
	if s.survey.LoopsByTable(int(p.Function)) {
		return false
	}
	for _, site := range s.survey.Loops(int(p.Function)) {
		if !p.Holds(site.Addr) && (site.Len == 0 || site.Rel8 || s.overlapsWindow(site)) {
			return false
		}
	}
	return true
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
