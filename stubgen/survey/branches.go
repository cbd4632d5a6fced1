package survey

import (
	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

type windowHit struct {
	target    uint64
	who       targeted
	low, high uint64 // body the branch came from
	from      Site
	past      bool // read where a jump table has most likely ended, or an address that may be none: not if it is inside an instruction
}

// entryJump is a jump from function from to the entry of function to.
type entryJump struct {
	from, to int
	site     Site
}

// transfer handles every instruction that is not plain.
func (w *sweep) transfer(i int, facts *facts, in *x86.Inst, body []byte, at int, pc uint64) {
	code := body[at:]
	if in.Prefix&x86.PrefixOpSize != 0 && in.OpSizeBranch() {
		facts.traits |= hasUnmovable
	}
	switch in.Kind {
	case x86.Jcc, x86.Jmp, x86.Loop:
		w.branch(i, in, in.BranchTarget(code, pc), pc)
	case x86.Call:
		w.call(i, facts, body, at, in.BranchTarget(code, pc))
	case x86.CallInd:
		facts.traits |= hasCall
	case x86.JmpInd:
		facts.traits |= hasIndirectJump
		w.jumpTables(i, facts, in, code)
	case x86.Syscall:
		facts.traits |= hasSystemCall
	case x86.Xbegin:
		facts.traits |= hasUnmovable
		w.window(in.BranchTarget(code, pc), Site{})
		w.s.entries.touch(in.BranchTarget(code, pc))
	}
	if in.Far() {
		facts.traits |= hasUnmovable
	}
}

// call records the direct call at offset at of the code of function i.
func (w *sweep) call(i int, facts *facts, code []byte, at int, target uint64) {
	facts.traits |= hasCall
	if code[at] == opCall {
		w.note(i, w.low+uint64(at), target)
	}
	w.window(target, Site{}) // to change a call's target would change what it returns to
	w.s.entries.take(target)
}

// window records a branch to target if that lies inside a window.
func (w *sweep) window(target uint64, from Site) {
	own := target-w.low < w.high-w.low
	if own && !w.nested && target-w.inside >= stubgen.WindowSize-1 || !w.s.entries.maybeInside(target) {
		return
	}
	who := fromElsewhere
	if own {
		who = fromOwnBody
	}
	w.hits = append(w.hits, windowHit{target, who, w.low, w.high, from, false})
}

// branch records where a direct jump of function i leads.
func (w *sweep) branch(i int, in *x86.Inst, target, pc uint64) {
	site := Site{Addr: pc, Len: in.Len, Rel8: in.ImmSize != 4}
	w.window(target, site)
	switch {
	case target == w.low || target == w.inside-1:
		w.loops = append(w.loops, entryJump{i, i, site})
	case target-w.low >= w.high-w.low:
		w.leave(i, target, in.Kind == x86.Jcc, site)
		if in.Kind == x86.Jmp && in.Len == CallSize && in.Prefix == 0 {
			w.note(i, pc, target)
		}
	}
}

// leave records a jump of function i out of its body, where it may tell cold
// parts from functions: to an entry, or from a candidate to anywhere.
func (w *sweep) leave(i int, target uint64, conditional bool, site Site) {
	o := w.s.obj
	candidate := isPart(o, i) || isCandidate(&o.Functions[i])
	j := o.FunctionAt(target)
	if j < 0 || target >= o.Functions[j].Addr+o.Functions[j].Size {
		w.s.entries.touch(target)
		return
	}
	switch to := &o.Functions[j]; {
	case target != to.Addr:
		w.s.entries.touch(target)
		if candidate && !isPart(o, j) {
			w.jumps = append(w.jumps, jumpEdge{int32(i), int32(j), conditional, true})
		}
		return
	case isPart(o, j) || isCandidate(to):
		w.jumps = append(w.jumps, jumpEdge{int32(i), int32(j), conditional, false})
	}
	if candidate {
		w.entryJumps = append(w.entryJumps, entryJump{i, j, site})
	}
}

// EachBranch calls f with each direct jump and call in a range, where it leads, and what is
// behind it. Bytes that do not decode end it.
func EachBranch(o *stubgen.Object, r elfscan.Range, f func(in *x86.Inst, to, next uint64)) {
	var in x86.Inst
	for at := r.Low; at < r.High; at += uint64(in.Len) {
		code := o.Code(at)
		if code == nil || x86.Decode(code, &in) != nil {
			return
		}
		switch in.Kind {
		case x86.Jcc, x86.Jmp, x86.Loop, x86.Call:
			f(&in, in.BranchTarget(code, at), at+uint64(in.Len))
		}
	}
}
