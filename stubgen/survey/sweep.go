package survey

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// sweep is one worker of a survey. What it learns of the function at hand goes
// straight into that function's facts; what it learns of others is kept here
// and merged when all workers are done.
type sweep struct {
	s          *Survey
	hits       []windowHit
	jumps      []jumpEdge  // to and from what may be cold parts
	entryJumps []entryJump // from what may be cold parts to entries
	loops      []entryJump // of functions to their own entries
	calls      []Call
	sites      []stubgen.KernelSite
	spread     []spreadSite // of the function at hand, with the number loaded further in front
	line       line
	skim       x86.Skim
	misplaced  []int // functions that start inside an instruction of another
	doubtful   []int // and inside one of what is between functions, which may be data
	gs         bool
	oldBirths  bool
	untold     untold

	low, high uint64   // the function at hand
	inside    uint64   // the first address strictly inside its window
	nested    bool     // another function starts in it,
	next      int      // none further down behind the instruction at hand
	gap       bool     // some bytes do not decode
	closed    bool     // its last instruction does not go on behind it
	usesGS    bool     //
	oldBirth  bool     // it may make a process by int $0x80
	tables    []uint64 // addresses it took that may be jump tables and are not read yet
	byTable   bool     // a jump table leads to somewhere in it
	entries   int64    // of jump tables, that were read for it

	partLow, partHigh uint64 // the cold part that a table last led to
	readLow, readHigh uint64 // the table of absolute addresses last read
}

// function decodes function i from its first to its last byte. What cannot tell
// anything is skimmed over.
func (w *sweep) function(i int) {
	o := w.s.obj
	f, facts := &o.Functions[i], &w.s.facts[i]
	code := o.Body(i)
	w.low, w.high = f.Addr, f.Addr+uint64(len(code))
	w.inside = f.Addr + uint64(facts.start) + 1
	w.nested = i+1 < len(o.Functions) && o.Functions[i+1].Addr < w.high
	w.tables, w.line = w.tables[:0], line{}
	w.readLow, w.readHigh, w.byTable, w.entries = 0, 0, false, 0
	w.gap, w.closed, w.usesGS, w.oldBirth, w.next = false, false, false, false, i+1
	beyond := o.Code(f.Addr) // Skim needs to see a few bytes more
	w.skim.Addr, w.skim.End = f.Addr, len(code)
	noted := len(w.calls)
	w.skim.Quiet = min(int(facts.start)+stubgen.WindowSize, len(code))
	for at := dataLen(code); at < len(code); {
		if w.nested {
			at += w.instruction(i, facts, code, at)
			continue
		}
		end := w.skim.Next(beyond, at)
		callers := w.skim.Callers()
		for k, target := range w.skim.Calls() {
			w.call(i, facts, code, callers[k], target)
		}
		for _, other := range w.skim.Others() {
			w.instruction(i, facts, code, other)
		}
		if end == at {
			end += w.instruction(i, facts, code, at)
		}
		at = end
	}
	inOrder(w.calls[noted:])
	if facts.traits&hasIndirectJump != 0 {
		w.relativeTables(i, facts) // that are taken behind the jump, in a loop
	}
	w.s.entriesRead.Add(w.entries)
	w.keepSpread(code)
	if facts.traits&isNested == 0 {
		w.between(w.high, i+1)
	}
	if w.gap {
		facts.traits |= hasGap
		return // what looks like a use of GS, or an int $0x80, may be the data
	}
	w.gs, w.oldBirths = w.gs || w.usesGS, w.oldBirths || w.oldBirth
	if w.closed {
		facts.traits |= isClosed
	}
}

// instruction looks at the instruction at offset at of the code of function i, and
// returns its length.
func (w *sweep) instruction(i int, facts *facts, code []byte, at int) int {
	var in x86.Inst
	if err := x86.Decode(code[at:], &in); err != nil {
		// Data in text, or the tail of an instruction that runs past
		// the end: go on behind it, nothing of it will be moved.
		w.gap = true
		return 1
	}
	pc, length := w.low+uint64(at), int(in.Len)
	if w.nested {
		w.misplaced, w.next = w.straddles(w.misplaced, pc, uint64(in.Len), w.next)
	}
	if in.Kind == x86.Syscall {
		w.systemCall(&in, code, at, pc)
	}
	if in.Kind != x86.Plain {
		w.transfer(i, facts, &in, code, at, pc)
	} else if in.RIPRel() || w.s.obj.Absolute {
		w.operand(&in, code[at:], pc)
	}
	if in.Prefix&x86.PrefixGS != 0 || in.Map != x86.MapLegacy || in.Op == opMovSegment {
		w.usesGS = w.usesGS || in.UsesGS()
	}
	if at+length == len(code) {
		w.closed = in.Kind == x86.Ret || in.Kind == x86.Jmp || in.Kind == x86.JmpInd ||
			in.Kind == x86.Trap && code[len(code)-1] == 0x0b // ud2
	}
	return length
}

// straddles adds functions, from number next on, that start inside the
// instruction at pc, to list. It also returns the first that starts behind it.
func (w *sweep) straddles(list []int, pc, length uint64, next int) ([]int, int) {
	functions := w.s.obj.Functions
	for ; next < len(functions) && functions[next].Addr < pc+length; next++ {
		if functions[next].Addr > pc {
			list = append(list, next)
		}
	}
	return list, next
}

// between looks at the code from low, where a function ends, to function next.
// Mostly it is padding; otherwise it is code that nobody tells of, and that may
// branch into windows.
func (w *sweep) between(low uint64, next int) {
	o := w.s.obj
	for ; next < len(o.Functions) && o.Functions[next].Addr <= low; next++ {
		if f := &o.Functions[next]; f.Addr+f.Size > low {
			return // what follows that one is looked at behind it
		}
	}
	if next == len(o.Functions) {
		return
	}
	code := o.Code(low)
	code = code[:min(uint64(len(code)), o.Functions[next].Addr-low+x86.MaxLen)]
	w.low, w.high, w.nested = low, low, false
	var in x86.Inst
	for at := 0; low+uint64(at) < o.Functions[next].Addr && at < len(code); {
		pc := low + uint64(at)
		if code[at] == 0 || x86.Decode(code[at:], &in) != nil {
			in.Len, in.Kind = 1, x86.Plain
			w.untold.see(&in, code[at:], pc, o.Functions[next].Addr)
			at++
			continue
		}
		w.untold.see(&in, code[at:], pc, o.Functions[next].Addr)
		w.doubtful, _ = w.straddles(w.doubtful, pc, uint64(in.Len), next)
		switch in.Kind {
		case x86.Jcc, x86.Jmp, x86.Loop, x86.Call, x86.Xbegin:
			w.window(in.BranchTarget(code[at:], pc), Site{})
			w.s.entries.take(in.BranchTarget(code[at:], pc))
		case x86.Plain:
			w.takes(w.s.entries.operand(o, &in, code[at:], pc), pc)
		}
		at += int(in.Len)
	}
}

const (
	opInt3       = 0xcc
	opCall       = 0xe8
	opLea        = 0x8d
	opMovSegment = 0x8e
)

// takes records an address that the instruction at pc takes, if it lies inside a window, where labels
// of a computed goto are, and entries of assembly that nobody tells of: a pointer may lead there. That
// of the instruction itself is what the large code model finds the GOT by.
func (w *sweep) takes(at, pc uint64) {
	if at != pc && w.s.entries.maybeInside(at) {
		w.hits = append(w.hits, windowHit{target: at, who: fromElsewhere, past: true})
	}
}

// operand looks at a plain instruction that may take an address: of code, or
// of a jump table.
func (w *sweep) operand(in *x86.Inst, code []byte, pc uint64) {
	w.takes(w.s.entries.operand(w.s.obj, in, code, pc), pc)
	if in.Op == opLea && in.Map == x86.MapLegacy && in.RIPRel() {
		w.tables = append(w.tables, in.RIPTarget(code, pc))
	}
}
