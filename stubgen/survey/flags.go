package survey

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// flagsBudget bounds how many instructions the liveness walk looks at.
const flagsBudget = 256

// flagsSettled are the flags that must be overwritten before the walk may stop.
// AF is left out: logic instructions leave it undefined, so that nobody can
// mean to read it behind one.
const flagsSettled = x86.FlagsAll &^ x86.FlagAF

// Live reports whether the code at addr may read a status flag that was
// set before it. By the System V ABI flags carry nothing into a function, so
// only hand-written assembly does. The walk follows direct branches, in both
// ways, and stops at calls, returns and indirect jumps, where the ABI holds
// again. When its budget is used up it says yes.
func (w *FlagsWalk) Live(o *stubgen.Object, addr uint64) bool {
	live, _ := w.LiveOrReturned(o, addr)
	return live
}

// LiveToEnd is Live, but whoever is returned to reads flags, too.
func (w *FlagsWalk) LiveToEnd(o *stubgen.Object, addr uint64) bool {
	live, returned := w.LiveOrReturned(o, addr)
	return live || returned
}

// LiveOrReturned is Live, and reports whether a return may leave such a flag to the caller,
// if none is live.
func (w *FlagsWalk) LiveOrReturned(o *stubgen.Object, addr uint64) (live, returned bool) {
	w.todo, w.seen, w.budget, w.returned = w.todo[:0], w.seen[:0], flagsBudget, false
	w.visit(addr, 0)
	for len(w.todo) > 0 {
		p := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		if w.path(o, p) {
			return true, false
		}
	}
	return false, w.returned
}

// flagsPoint is a place that a path arrives at with some flags overwritten.
type flagsPoint struct {
	addr    uint64
	written x86.FlagSet
}

// FlagsWalk asks what status flags code reads, one question after the other: it is the
// scratch space of the walk.
type FlagsWalk struct {
	todo, seen []flagsPoint
	budget     int
	returned   bool
}

// visit puts a place on the list unless a path with no more flags overwritten
// has been there.
func (w *FlagsWalk) visit(addr uint64, written x86.FlagSet) {
	for _, s := range w.seen {
		if s.addr == addr && s.written&^written == 0 {
			return
		}
	}
	p := flagsPoint{addr, written}
	w.seen = append(w.seen, p)
	w.todo = append(w.todo, p)
}

// path follows the code from p to where the flags are settled or it branches;
// it reports whether a live flag is read.
func (w *FlagsWalk) path(o *stubgen.Object, p flagsPoint) bool {
	var in x86.Inst
	for p.written&flagsSettled != flagsSettled {
		if w.budget--; w.budget < 0 {
			return true
		}
		code := o.Code(p.addr)
		if code == nil || x86.Decode(code, &in) != nil {
			return false // leaves the object, or faults
		}
		read, written := in.Flags()
		if read&^p.written != 0 {
			return true
		}
		p.written |= written
		next := p.addr + uint64(in.Len)
		switch in.Kind {
		case x86.Jcc, x86.Loop:
			w.visit(in.BranchTarget(code, p.addr), p.written)
			w.visit(next, p.written)
			return false
		case x86.Jmp:
			w.visit(in.BranchTarget(code, p.addr), p.written)
			return false
		case x86.Ret:
			w.returned = true
			return false
		case x86.Call, x86.CallInd, x86.JmpInd, x86.Syscall, x86.Trap:
			return false
		}
		p.addr = next
	}
	return false
}
