package translate

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// Guards. Accesses of a block by the same registers, which nothing changes in between, are a span,
// if all lie in less than emit.RecordMost bytes: a check of the first of these says whether one of
// them may be to a region (emit.Touch.Check). Where it may be, the thread goes on in the slow copy,
// at the instruction in front of which the check stands, so that each access is recorded when its
// turn comes. Checks reach further than their spans, so that what follows, in the block and those
// behind it, needs none:
//
//	check  [rbx], [rsp-1024]         ; each up to 4,096 bytes on
//	jne    slow
//	mov    rax, [rbx+8]
//	mov    [rsp+24], rax
//	mov    rcx, [rbx+64]
//
// Behind a call or a system call, where control may come from outside, and in each round of a loop
// nothing is known, as with touches; there the slow copy goes on in the other by its jumps. Where
// flags are live wherever a check could stand it is one that changes none (emit.Touch.ByRCX); an
// access that can have neither has a record of its own.
//
// A context that goes on elsewhere goes on in the slow copy, which is behind the other
// (libdynprof/resident/signals/signals.c): in front of that instruction nothing was checked.

// guards is what toucher has for them.
type guards struct {
	unchecked [][]bool // by block: which accesses, in order, have a record of their own; nil: none
	aimed     []span   // instructions where a register has what a jump table of the copy is like

	// Of a block.
	of     []int   // by access: its span
	covers []known // by span: what its check reaches; none where it has none, or one in front of the block
}

// span is some instructions.
type span struct{ first, end int32 }

// How far below where a base register leads a check begins, at most. Most of a structure is above
// it; on the stack it moves to either side.
const (
	checkedBelow      = 1 << 11
	checkedBelowStack = 1 << 10
)

// guard puts guards in front of accesses, and records in front of others.
func (c *Code) guard(o *stubgen.Object, how Touching, a *asked) {
	g := c.Home.Graph
	t := toucher{asked: a, code: c, obj: o, how: how, most: emit.RecordMost, compares: true}
	t.guards = &guards{unchecked: make([][]bool, len(g.Blocks))}
	for i := range c.Tables {
		t.aimed = append(t.aimed, span{c.Tables[i].Load + 1, c.Tables[i].Jump + 1})
	}
	t.blocks()
	c.Slow.Known = make([]bool, len(g.Blocks))
	for k := range t.have {
		c.Slow.Known[k] = len(t.have[k]) > 0
	}
	t.guardOps()
}

// guardOps puts into the copy what was found.
func (t *toucher) guardOps() {
	c := t.code
	ops, begins := make([]Op, 0, 3*len(c.Ops)/2), make([]int32, 0, len(t.begins))
	for k := range t.begins {
		begins = append(begins, int32(len(ops)))
		access := 0
		for i, op := range c.ops(k) {
			if t.isFirst(c.ops(k), i) {
				ops = t.putForms(t.put(ops, k, op.Inst), op.Inst)
				if t.unchecked[k] != nil {
					ops = t.putRecords(ops, op.Inst, func() bool {
						access++
						return t.unchecked[k][access-1]
					})
				}
			}
			ops = append(ops, op)
		}
	}
	c.Ops, c.Begins = ops, begins
}

// isOf says of the next access which span it is in.
func (t *toucher) isOf(span int) {
	if t.guards != nil {
		t.of = append(t.of, span)
	}
}

// guardBlock finds the guards of a block, in front of which some bytes are checked, and says which
// are behind it.
func (t *toucher) guardBlock(k int, have []known) (behind []known) {
	t.covers = append(t.covers[:0], make([]known, len(t.spans))...)
	for i := range t.spans {
		s := &t.spans[i]
		for _, k := range have {
			if s.since == 0 && k.class == s.class && k.from <= s.from && s.to <= k.to {
				s.low, s.high = false, false
				break
			}
		}
	}
	failed := false
	for i := range t.spans {
		if !t.spans[i].isNoted() && !t.placeGuard(i) {
			failed = true
		}
	}
	if failed {
		t.unchecked[k] = make([]bool, len(t.of))
		for i, span := range t.of {
			t.unchecked[k][i] = !t.spans[span].isNoted()
		}
	}
	return t.checkedBehind(have)
}

// placeGuard makes a guard of a block's span, and of others that are known where it stands, and
// reports false if it can stand nowhere.
func (t *toucher) placeGuard(i int) bool {
	at, guard := t.bestGuard(&t.spans[i].class, t.spans[i].since, t.spans[i].last)
	if at < 0 {
		return false
	}
	guard.Check, guard.Marks = true, t.some[:0]
	for k := i; k < len(t.spans); k++ {
		s := &t.spans[k]
		if s.isNoted() || s.since > at || t.isCovered(i, k) {
			continue
		}
		if from := t.checkFrom(s, at); t.markAt(&guard, s, from, at, 0) {
			s.low, s.high = false, false
			t.covers[k] = known{class: s.class, from: from, to: from + emit.RecordMost}
		}
	}
	begin := len(t.marks)
	t.marks = append(t.marks, guard.Marks...)
	guard.Marks = t.marks[begin:len(t.marks):len(t.marks)]
	t.at = append(t.at, t.insts[at])
	t.code.Touches = append(t.code.Touches, guard)
	return true
}

// isCovered reports whether a check for a span, of those from i on, at the same place reaches span k.
func (t *toucher) isCovered(i, k int) bool {
	s := &t.spans[k]
	for _, c := range t.covers[i:k] {
		if c.to > c.from && c.class == s.class && !c.class.Addr32 && c.from <= s.from && s.to <= c.to {
			s.low, s.high = false, false
			return true
		}
	}
	return false
}

// bestGuard is where a guard is best, of the instructions from first to last: late, so that more
// spans are known; -1 if it can stand nowhere.
func (t *toucher) bestGuard(class *x86.Memory, first, last int) (at int, best emit.Touch) {
	at = -1
	least := 0
	for i := last; i >= first && (at < 0 || least != 0); i-- {
		touch, cost := t.touchAt(t.insts[i])
		if touch.KeepsFlags {
			touch, cost = t.byRCX(touch, t.insts[i], class)
		}
		if touch.KeepsFlags || t.isAimed(t.insts[i]) {
			continue
		}
		if at < 0 || cost < least {
			at, best, least = i, touch, cost
		}
	}
	return at, best
}

// byRCX is a check that keeps flags because it changes none, in place of one that saves them, if there
// can be such a one, and what it costs.
func (t *toucher) byRCX(touch emit.Touch, inst int32, class *x86.Memory) (emit.Touch, int) {
	const inRow, onStack = 5, 7
	if !t.how.Masks || class.Base == x86.RCX || class.Index == x86.RCX {
		return touch, 0
	}
	touch.ByRCX, touch.KeepsFlags = true, false
	if t.how.Row && t.dead[inst]>>x86.RCX&1 != 0 {
		touch.Scratch = x86.RCX
		return touch, inRow
	}
	return touch, onStack
}

// isAimed reports whether in front of an instruction a register has what a jump table of the copy
// is like, of which the slow one has another.
func (t *toucher) isAimed(inst int32) bool {
	for _, s := range t.aimed {
		if inst >= s.first && inst < s.end {
			return true
		}
	}
	return false
}

// checkFrom is where the check of a span begins, in front of an instruction of the block.
func (t *toucher) checkFrom(s *touched, at int) int64 {
	from := s.from
	switch {
	case s.class.Addr32:
	case s.class.Base == x86.RIP:
		from &^= emit.GranulePage.Bytes() - 1
	case s.class.Base == x86.RSP && s.class.Index == x86.NoRegister:
		from = int64(t.rsps[at]) - checkedBelowStack
	case s.class.Base == x86.NoRegister || s.class.Index != x86.NoRegister:
	case from >= 0:
		from = 0 // needs no lea
	case from >= -checkedBelow:
		from = -checkedBelow
	}
	if from <= s.from && s.to <= from+emit.RecordMost {
		return from
	}
	return s.from
}

// checkedBehind is what is checked behind the block.
func (t *toucher) checkedBehind(have []known) (list []known) {
	for _, i := range t.open {
		if c := t.covers[i]; c.to > c.from {
			list = append(list, c)
		}
	}
	for _, k := range have {
		if !t.isChanged(k.class.Base) && !t.isChanged(k.class.Index) && t.since[baseOf(k.class.Segment)] == 0 {
			list = append(list, k)
		}
	}
	for i := range list {
		if l := &list[i]; l.class.Base == x86.RSP {
			l.from, l.to = l.from-int64(t.rsp), l.to-int64(t.rsp)
		}
	}
	return list[:min(len(list), mostKnown)]
}

// guarded is a guard of which one mark is not above all regions.
type guarded struct {
	inst            int32
	others, bounded emit.Touch
	cold, back      x86.Label    // of others
	begin           x86.Label    // of one ByRCX
	lows, next      [4]x86.Label // of bounded, by mark
}

// split is a check of marks that have bounds, or of the others.
func split(t *emit.Touch, bounds bool) emit.Touch {
	some := *t
	some.Marks = nil
	for i := range t.Marks {
		if t.Marks[i].HasBounds() != bounds {
			continue
		}
		if n := len(some.Marks); n > 0 || i > 0 {
			some.Marks = append(some.Marks, t.Marks[i])
		} else {
			some.Marks = t.Marks[:1:1] // mostly it is one
		}
	}
	return some
}

// guard writes a guard in front of an instruction. Each mark is compared with the edge of all regions
// (emit.BoundEdge), one by the stack pointer with their end, and jumps by jbe. What may be within them
// is looked at behind the copy: what goes by a register alone may be below or above them.
//
//	        mov   gs:[word], r       ; of what goes by more (emit.Touch.checks)
//	        lea   r, <mark>
//	        cmp   r, [edge]
//	        mov   r, gs:[word]
//	        js    others
//	1:      cmp   rbx, [edge]
//	        js    low
//	2:      ...                      ; of each such mark
//
//	others: <check of all such marks>
//	        je    1b
//	        jmp   slow
//
//	low:    cmp   rbx, [low]
//	        jb    2b
//	        cmp   rbx, [high]
//	        ja    2b
//	        <check of all such marks>
//	        je    2b                 ; behind the last
//	        jmp   slow
//
// One that keeps flags (emit.Touch.ByRCX) looks at the shadow at once:
//
//	        <check>                  ; jumps to found
//
//	found:  <emit.Touch.WriteFound>
//	        jmp   slow
func (w *Writer) guard(t *emit.Touch, inst int32) {
	if t.ByRCX {
		g := guarded{inst: inst, others: *t, cold: w.asm.NewLabel(), begin: w.asm.NewLabel()}
		w.runs.BeginTouch(w.asm, w.shown(inst), t, true)
		w.asm.Bind(g.begin)
		t.Write(w.asm, w.guardUse(&g))
		w.runs.Touched(w.asm)
		w.runs.Begin(w.asm, w.shown(inst), 0, false)
		w.guarded = append(w.guarded, g)
		return
	}
	g := guarded{inst: inst, others: split(t, false), bounded: split(t, true)}
	if len(g.others.Marks) > 0 {
		g.cold, g.back = w.asm.NewLabel(), w.asm.NewLabel()
		first := g.others
		first.Bounds = true
		w.runs.BeginTouch(w.asm, w.shown(inst), &first, true)
		first.Write(w.asm, w.touchUse())
		w.runs.Touched(w.asm)
	}
	w.runs.Begin(w.asm, w.shown(inst), 0, false)
	if len(g.others.Marks) > 0 {
		w.left(func() { w.asm.Jcc(x86.CondS, g.cold) })
		w.asm.Bind(g.back)
	}
	for i := range g.bounded.Marks {
		r, bound, may := g.bounded.Marks[i].Memory.Base, int32(emit.BoundEdge), x86.CondS
		if r == x86.RSP {
			bound, may = emit.BoundHigh, x86.CondBE
		}
		g.lows[i], g.next[i] = w.asm.NewLabel(), w.asm.NewLabel()
		w.left(func() { w.asm.CmpAbsolute(r, bound) })
		w.left(func() { w.asm.Jcc(may, g.lows[i]) })
		w.asm.Bind(g.next[i])
	}
	w.guarded = append(w.guarded, g)
}

// guardUse is what a check ByRCX uses.
func (w *Writer) guardUse(g *guarded) *emit.TouchUse {
	use := w.touchUse()
	use.Cold = g.cold
	return use
}

// left writes an instruction that stands for none.
func (w *Writer) left(write func()) {
	start := w.asm.Len()
	write()
	w.runs.Left(w.asm.Len() - start)
}

// coldGuards writes the rest of guards.
func (w *Writer) coldGuards() {
	for i := range w.guarded {
		g := &w.guarded[i]
		if g.others.ByRCX {
			w.found(g)
			continue
		}
		if len(g.others.Marks) > 0 {
			w.coldGuard(g, &g.others, g.cold, g.back)
		}
		last := len(g.bounded.Marks) - 1
		if last < 0 {
			continue
		}
		cold := w.asm.NewLabel()
		w.runs.Begin(w.asm, w.shown(g.inst), 0, false)
		for k := range g.bounded.Marks {
			w.asm.Bind(g.lows[k])
			r := g.bounded.Marks[k].Memory.Base
			w.left(func() { w.asm.CmpAbsolute(r, emit.BoundLow) })
			w.left(func() { w.asm.Jcc(x86.CondB, g.next[k]) })
			if r != x86.RSP {
				w.left(func() { w.asm.CmpAbsolute(r, emit.BoundHigh) })
				w.left(func() { w.asm.Jcc(x86.CondA, g.next[k]) })
			}
			if k < last {
				w.left(func() { w.asm.Jmp(cold) })
			}
		}
		w.coldGuard(g, &g.bounded, cold, g.next[last])
	}
}

// found writes the rest of a check ByRCX.
func (w *Writer) found(g *guarded) {
	w.runs.ColdTouch(w.asm, w.shown(g.inst), &g.others)
	start := w.asm.Len()
	g.others.WriteFound(w.asm, w.guardUse(g), g.begin)
	w.runs.Noted(w.asm.Len() - start)
	w.runs.Begin(w.asm, w.shown(g.inst), 0, false)
	w.left(func() { w.asm.Jmp(w.slow.entry(g.inst)) })
}

// coldGuard writes the check of marks by the shadow.
func (w *Writer) coldGuard(g *guarded, t *emit.Touch, cold, back x86.Label) {
	w.runs.BeginTouch(w.asm, w.shown(g.inst), t, true)
	w.asm.Bind(cold)
	t.Write(w.asm, w.touchUse())
	w.runs.Touched(w.asm)
	w.runs.Begin(w.asm, w.shown(g.inst), 0, false)
	w.left(func() { w.asm.Jcc(x86.CondE, back) })
	w.left(func() { w.asm.Jmp(w.slow.entry(g.inst)) })
}

// guardSizes are the most bytes of a guard, in front of the instruction and behind the copy.
func guardSizes(t *emit.Touch) (front, behind int) {
	const cmp, jcc, nop = 8, 6, 1
	if t.ByRCX {
		return t.MostSize(), emit.FoundSize + emit.JumpSize
	}
	if others := split(t, false); len(others.Marks) > 0 {
		front = others.MostSize() + jcc
		behind = nop + others.MostSize() + jcc + emit.JumpSize
	}
	if bounded := split(t, true); len(bounded.Marks) > 0 {
		front += (cmp + jcc) * len(bounded.Marks)
		behind += (cmp+jcc+cmp+jcc+emit.JumpSize)*len(bounded.Marks) + nop + bounded.MostSize() + jcc + emit.JumpSize
	}
	return front, behind
}

// entry is where a guard in front of an instruction leads.
func (w *Writer) entry(inst int32) x86.Label {
	l, ok := w.entries[inst]
	if !ok {
		l = w.asm.NewLabel()
		w.entries[inst] = l
	}
	return l
}

// bindEntry binds it, with a run, in front of the first that is of the instruction itself.
func (w *Writer) bindEntry(op Op) {
	if op.Kind != Touch && op.Kind != Note && !op.Kind.runsHere() {
		return
	}
	if l, ok := w.entries[op.Inst]; ok {
		if !op.Kind.isRun() && !w.isMark(op.Inst) { // who goes on at the instruction finds this first
			w.runs.Begin(w.asm, w.shown(op.Inst), 0, false)
		}
		w.asm.Bind(l)
		delete(w.entries, op.Inst)
	}
}

// goesFast reports whether in the slow copy a jump to a block leads to that in the other, where it
// is as good.
func (c *Code) goesFast(to, via int32) bool { return c.Known != nil && via == 0 && !c.Known[to] }
