package translate

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Granules, pages or less, that memory is read and written in. Accesses of a block by the same
// registers, which nothing changes in between, are a span, noted by its first and its last byte, if
// all lie in less than a granule: those of both are all that there are. Of a larger operand bytes that
// lie so far apart are spans of their own. What is read and what is written
// are apart, as both ends shall be of the same kind. Spans whose addresses are known at one
// place are one Touch there, in front of the first access of them: best where a register is
// dead, and no flag is live. What is noted since the last call, or round of a loop, is not noted
// again.

// touchChange are the flags that a Touch changes and somebody may mean to read: not AF.
const touchChange = x86.FlagsAll &^ x86.FlagAF

// mostTouched is how many bytes an operand has.
const mostTouched = 4096

// Touching is how granules are noted.
type Touching struct {
	Row     bool // threads have rows, with a word for this
	Masks   bool // by pext: the CPU is fast with it
	Granule emit.Granule
	Threads bool // of each thread with a row for itself, pages; without Masks
	Tells   bool // pages, and which instruction it was
	Bases   bool // rdfsbase can be used, and without Row rdgsbase
}

// NoteTouches puts a Touch in front of accesses. It comes behind Count or CountAs, and
// NoteCallees. Nearly all returns have one: so what a function leaves in flags stays, though few
// mean to leave any.
func (c *Code) NoteTouches(o *stubgen.Object, how Touching) {
	g := c.Home.Graph
	t := toucher{code: c, obj: o, how: how, most: how.Granule.Bytes(), asked: c.ask(o, &how)}
	t.blocks()
	ops, begins := make([]Op, 0, 3*len(c.Ops)/2), make([]int32, 0, len(g.Blocks))
	for k := range g.Blocks {
		begins = append(begins, int32(len(ops)))
		for i, op := range c.ops(k) {
			if t.isFirst(c.ops(k), i) {
				ops = t.putForms(t.put(ops, k, op.Inst), op.Inst)
			}
			ops = append(ops, op)
		}
	}
	c.Ops, c.Begins = ops, begins
}

// asked is what is asked of all blocks.
type asked struct {
	nest  *flow.Nest
	live  []x86.FlagSet
	dead  []uint32
	forms map[int32][]emit.Form // by instruction, of those that have some
}

func (c *Code) ask(o *stubgen.Object, how *Touching) *asked {
	g := c.Home.Graph
	a := &asked{nest: c.Nest, live: g.FlagsForCallers(), forms: map[int32][]emit.Form{}}
	if a.nest == nil { // CountAs asks for none
		a.nest = g.Loops()
	}
	if how.Row {
		a.dead = g.DeadRegisters(func(in *flow.Inst) []byte { return o.Code(in.Addr)[:in.Len] })
	}
	for i := range g.Insts {
		if forms := how.formsOf(o, &g.Insts[i]); forms != nil {
			a.forms[int32(i)] = forms
		}
	}
	return a
}

// put adds the touches of a block that are in front of an instruction.
func (t *toucher) put(ops []Op, k int, inst int32) []Op {
	for n := t.begins[k]; n < t.ends[k]; n++ {
		if t.at[n] == inst {
			ops = append(ops, Op{Kind: Touch, Inst: inst, To: n})
		}
	}
	return ops
}

// toucher finds the touches.
type toucher struct {
	*asked
	code     *Code
	obj      *stubgen.Object
	how      Touching
	compares bool        // what is in front of instructions changes flags even by pext
	begins   []int32     // by block: the number of its first touch,
	ends     []int32     // and behind its last
	most     int64       // bytes of a span
	at       []int32     // by touch: the instruction that it is in front of
	marks    []emit.Mark // of all touches
	have     [][]known   // by block: what is noted where it begins, on each way
	*guards              // nil: touches are noted; else it is guards that are found, in their place (guards.go)

	// Of a block.
	insts []int32           // those that run, here or at home
	rsps  []int32           // in front of each: how far the stack pointer is from where it was first
	since [lastBase + 1]int // by register, or base of a segment (far.go): the first of these that what it has now is there in front of
	spans []touched
	open  []int // spans that more may come to
	rsp   int32
	some  [8]emit.Mark // of the touch that is made
}

// touched is a span.
type touched struct {
	class    x86.Memory // without its displacement; by RIP, with that of link-time addresses
	from, to int64      // displacements, from where the stack pointer was first for those by it; to is excluded
	kind     x86.OperandKind
	since    int   // the first of the block's instructions that it can be noted in front of
	last     int   // and the last: that of its first access
	by       int32 // the instruction of its last access
	low      bool  // its first byte is to be noted,
	high     bool  // and its last
}

func (s *touched) isNoted() bool { return !s.low && !s.high }

// known is bytes whose granules are noted, at a place that came so soon before that no access in
// between can be of another time.
type known struct {
	class    x86.Memory
	from, to int64 // as of touched, but by the stack pointer from where it is
	kind     x86.OperandKind
}

// mostKnown is how many are remembered.
const mostKnown = 16

// blocks finds the touches of all blocks. What is noted on each way to a block needs not be
// noted in it once more, if all ways are jumps and what goes on, and none leads back: so each
// round of a loop notes what it touches, and so does what is behind a call.
func (t *toucher) blocks() {
	g := t.code.Home.Graph
	n := len(g.Blocks)
	t.begins, t.ends, t.have = make([]int32, n), make([]int32, n), make([][]known, n)
	fresh, come, done := t.fresh(), make([]bool, n), make([]bool, n)
	for _, k := range t.nest.Order() {
		behind := t.blockNumber(int(k))
		done[k] = true
		for _, e := range g.Blocks[k].Succs {
			switch {
			case fresh[e.To]:
			case come[e.To]:
				t.have[e.To] = common(t.have[e.To], behind)
			default:
				t.have[e.To], come[e.To] = behind, true
			}
		}
	}
	for k := range n {
		if !done[k] {
			t.blockNumber(k)
		}
	}
}

func (t *toucher) blockNumber(k int) (behind []known) {
	t.begins[k] = int32(len(t.at))
	behind = t.block(k, t.have[k])
	t.ends[k] = int32(len(t.at))
	return behind
}

// fresh are the blocks where nothing is known.
func (t *toucher) fresh() []bool {
	g := t.code.Home.Graph
	fresh, done := make([]bool, len(g.Blocks)), make([]bool, len(g.Blocks))
	for k := range g.Blocks {
		fresh[k] = k == g.Entry || g.Blocks[k].Entered != 0
	}
	for _, l := range t.code.Home.Landings {
		fresh[g.BlockOf(l.Inst)] = true
	}
	for _, r := range t.code.Home.Runs {
		if r.Resume >= 0 {
			fresh[g.BlockOf(r.Resume)] = true
		}
	}
	for _, k := range t.nest.Order() {
		done[k] = true
		for _, e := range g.Blocks[k].Succs {
			if done[e.To] || waits(g.Last(&g.Blocks[k])) || e.Kind == flow.Return || e.Kind == flow.Unwind {
				fresh[e.To] = true
			}
		}
	}
	for k := range g.Blocks {
		if done[k] {
			continue // what is left nothing leads to
		}
		for _, e := range g.Blocks[k].Succs {
			fresh[e.To] = true
		}
	}
	return fresh
}

// waits reports whether what a block ends with may take any time, or change anything.
func waits(in *flow.Inst) bool {
	return in.Calls() || in.Kind == x86.Syscall || in.Kind == x86.Trap
}

// common is what is in both.
func common(a, b []known) (both []known) {
	for _, x := range a {
		for _, y := range b {
			if x.class == y.class && x.kind == y.kind && max(x.from, y.from) < min(x.to, y.to) {
				x.from, x.to = max(x.from, y.from), min(x.to, y.to)
				both = append(both, x)
				break
			}
		}
	}
	return both
}

// leaveOut leaves ends out of spans: what is noted in front of the block, and of two that are in
// one granule, wherever the object is, the second.
func (t *toucher) leaveOut(have []known) {
	for i := range t.spans {
		s := &t.spans[i]
		for _, k := range have {
			if s.since == 0 && s.class == k.class && s.kind == k.kind && max(s.to, k.to)-min(s.from, k.from) <= t.most {
				s.low, s.high = s.from < k.from, s.to > k.to
				break
			}
		}
		if !s.isNoted() && t.isInOne(s) {
			s.low, s.high = true, false
		}
	}
}

// isInOne reports whether a span is known to be in one granule.
func (t *toucher) isInOne(s *touched) bool {
	first, last := s.from, s.to-1
	switch {
	case first == last:
		return true
	case s.class.Base == x86.RIP:
		return t.obj.Run(uint64(first))>>t.how.Granule == t.obj.Run(uint64(last))>>t.how.Granule
	}
	return s.class.Segment == x86.SegmentNone && s.class.Base == x86.NoRegister && s.class.Index == x86.NoRegister && first>>t.how.Granule == last>>t.how.Granule && first >= 0
}

// behind is what is noted behind the block.
func (t *toucher) behind(have []known) (list []known) {
	for _, i := range t.open {
		s := &t.spans[i]
		list = append(list, known{s.class, s.from, s.to, s.kind})
	}
	for _, k := range have {
		if t.isChanged(k.class.Base) || t.isChanged(k.class.Index) || t.since[baseOf(k.class.Segment)] != 0 {
			continue
		}
		i := slices.IndexFunc(list, func(l known) bool {
			return l.class == k.class && l.kind == k.kind && max(l.to, k.to)-min(l.from, k.from) <= t.most
		})
		if i < 0 {
			list = append(list, k)
		} else {
			list[i].from, list[i].to = min(list[i].from, k.from), max(list[i].to, k.to)
		}
	}
	for i := range list {
		if l := &list[i]; l.class.Base == x86.RSP {
			l.from, l.to = l.from-int64(t.rsp), l.to-int64(t.rsp)
		}
	}
	return list[:min(len(list), mostKnown)]
}

// isChanged reports whether the block has changed a register.
func (t *toucher) isChanged(register byte) bool {
	return register != x86.NoRegister && t.since[register] != 0
}

// runsHere reports whether an operation is an instruction, here or at home.
func (k OpKind) runsHere() bool { return k <= Push && k != Follow }

// isFirst reports whether operation i is the instruction, or the note in front of it.
func (t *toucher) isFirst(ops []Op, i int) bool {
	if ops[i].Kind == Note {
		return true
	}
	return ops[i].Kind.runsHere() && (i == 0 || ops[i-1].Kind != Note)
}

// block finds the touches of block k, in front of which some bytes are noted, and says what is
// noted behind it.
func (t *toucher) block(k int, have []known) (behind []known) {
	t.insts, t.rsps, t.spans, t.open, t.rsp = t.insts[:0], t.rsps[:0], t.spans[:0], t.open[:0], 0
	if t.guards != nil {
		t.of = t.of[:0]
	}
	t.since = [len(t.since)]int{}
	for _, op := range t.code.ops(k) {
		if op.Kind.runsHere() {
			t.insts, t.rsps = append(t.insts, op.Inst), append(t.rsps, t.rsp)
			t.instruction(op.Inst)
		}
	}
	if t.guards != nil {
		return t.guardBlock(k, have)
	}
	t.leaveOut(have)
	t.place()
	return t.behind(have)
}

func (t *toucher) instruction(inst int32) {
	in := &t.code.Home.Graph.Insts[inst]
	code := t.obj.Code(in.Addr)[:in.Len]
	var all [x86.MaxOperands]x86.Operand
	operands := all[:in.Operands(code, &all)]
	for i := range operands {
		if t.guards != nil && (!t.how.isRecorded(&operands[i]) || t.forms[inst] != nil) {
			continue
		}
		t.touch(in, &operands[i])
	}
	t.leave(in, code, operands)
}

// touch adds an operand.
func (t *toucher) touch(in *flow.Inst, p *x86.Operand) {
	n := int64(p.Size) * int64(p.Count)
	if !t.how.notes(p) || n > mostTouched || p.Disp > emit.MostDisplacement || p.Disp < -1<<31 {
		return
	}
	class, from := classOf(p), p.Disp
	switch p.Base {
	case x86.RIP:
		from += int64(in.End())
	case x86.RSP:
		from += int64(t.rsp)
	}
	if t.guards != nil {
		t.access(class, 0, from, from+n)
		return
	}
	for _, kind := range []x86.OperandKind{x86.OperandLoad, x86.OperandStore} {
		if p.Kind&kind == 0 {
			continue
		}
		at := from
		for ; at+t.most < from+n; at += t.most {
			t.access(class, kind, at, at+1)
		}
		t.access(class, kind, at, from+n)
	}
}

// access adds bytes to a span, or begins one.
func (t *toucher) access(class x86.Memory, kind x86.OperandKind, from, to int64) {
	for _, k := range t.open {
		s := &t.spans[k]
		if low, high := min(s.from, from), max(s.to, to); s.class == class && s.kind == kind && high-low <= t.most && t.inReach(s, low) && t.inReach(s, high) {
			s.from, s.to, s.by = low, high, t.insts[len(t.insts)-1]
			t.isOf(k)
			return
		}
	}
	s := touched{class: class, from: from, to: to, kind: kind, last: len(t.insts) - 1, by: t.insts[len(t.insts)-1], low: true, high: true}
	if !t.inReach(&s, from) {
		s.since = s.last
	}
	for _, r := range []byte{class.Base, class.Index} {
		if r != x86.NoRegister {
			s.since = max(s.since, t.since[r])
		}
	}
	s.since = max(s.since, t.since[baseOf(class.Segment)])
	t.isOf(len(t.spans))
	if !class.Addr32 { // which may go round
		t.open = append(t.open, len(t.spans))
	}
	t.spans = append(t.spans, s)
}

// inReach reports whether a byte is in reach of a displacement wherever the span may be noted.
func (t *toucher) inReach(s *touched, at int64) bool {
	const room = 1 << 24 // that the stack pointer moves in a block
	return s.class.Base == x86.RIP || at > -1<<31+room && at < emit.MostDisplacement-room
}

// leave has spans end whose registers an instruction writes.
func (t *toucher) leave(in *flow.Inst, code []byte, operands []x86.Operand) {
	written := in.Effects(code).Written.G
	by, known := movesStack(in, code, operands)
	if t.rsp += by; !known {
		written |= 1 << x86.RSP
	}
	for r := range byte(x86.RIP) {
		if written>>r&1 != 0 {
			t.since[r] = len(t.insts)
		}
	}
	bases := setsBases(in)
	if bases {
		t.since[fsBase], t.since[gsBase] = len(t.insts), len(t.insts)
	}
	keep := t.open[:0]
	for _, k := range t.open {
		if m := &t.spans[k].class; !isIn(written, m.Base) && !isIn(written, m.Index) && !(bases && m.Segment != x86.SegmentNone) {
			keep = append(keep, k)
		}
	}
	t.open = keep
}

func isIn(set uint32, register byte) bool { return register < x86.RIP && set>>register&1 != 0 }

// usesMask reports whether a Touch needs a mask in memory.
func (c *Code) usesMask() bool { return len(c.Touches) > 0 && c.Touches[0].Masks }

// place makes touches of a block's spans.
func (t *toucher) place() {
	for i := range t.spans {
		if t.spans[i].isNoted() {
			continue
		}
		at, touch := t.best(t.spans[i].since, t.spans[i].last)
		touch.Looks = touch.Looks && !((touch.Threads || touch.Tells) && isFar(&t.spans[i].class)) // whose two ends would have no room
		touch.Marks = t.some[:0]
		for k := i; k < len(t.spans); k++ {
			if s := &t.spans[k]; !s.isNoted() && s.since <= at && t.mark(&touch, s, at) {
				s.low, s.high = false, false
			}
		}
		touch.Looks = touch.Looks && !(touch.Tells && !touch.Crosses())
		begin := len(t.marks)
		t.marks = append(t.marks, touch.Marks...)
		touch.Marks = t.marks[begin:len(t.marks):len(t.marks)]
		t.at = append(t.at, t.insts[at])
		t.code.Touches = append(t.code.Touches, touch)
	}
}

// best is where a touch is best, of the instructions from first to last: late, so that more
// spans are known.
func (t *toucher) best(first, last int) (at int, best emit.Touch) {
	least := -1
	for i := last; i >= first && least != 0; i-- {
		touch, cost := t.touchAt(t.insts[i])
		if least < 0 || cost < least {
			at, best, least = i, touch, cost
		}
	}
	return at, best
}

// touchAt is a Touch in front of an instruction, without marks, and what it costs: instructions,
// by guess.
func (t *toucher) touchAt(inst int32) (touch emit.Touch, cost int) {
	const stores, onStack, keeps = 2, 4, 8
	touch = emit.Touch{Scratch: x86.NoRegister, Granule: t.how.Granule, Masks: t.how.Masks, Threads: t.how.Threads && t.how.Row, Tells: t.how.Tells}
	live := t.live[inst]&touchChange != 0
	touch.KeepsFlags = (t.compares || !t.how.Masks) && live
	if touch.KeepsFlags {
		return touch, keeps
	}
	if touch.Looks = !t.compares && !live; live {
		cost = stores
	}
	if t.how.Row {
		if free := t.dead[inst] &^ (1 << x86.R8); free != 0 { // which the signal entry has no word for
			touch.Scratch = byte(bits.TrailingZeros32(free))
			return touch, cost
		}
	}
	return touch, cost + onStack
}

// mark adds the ends of a span to a Touch in front of an instruction of the block, as one mark if
// that can look for both at once. It reports false if there is no room.
func (t *toucher) mark(touch *emit.Touch, s *touched, at int) bool {
	old, more := len(touch.Marks), s.to-1-s.from
	if touch.Looks && s.low && s.high && s.class.Base != x86.RIP && !isFar(&s.class) && more <= touch.Granule.MostMore() {
		return t.markAt(touch, s, s.from, at, int32(more))
	}
	for i, b := range []int64{s.from, s.to - 1} {
		if i == 0 && !s.low || i == 1 && !s.high {
			continue
		}
		if !t.markAt(touch, s, b, at, 0) {
			touch.Marks = touch.Marks[:old]
			return false
		}
	}
	return true
}

// markAt adds a byte of a span's kind, at a displacement, and some behind it, in front of an
// instruction of the block. It reports false if there is no room.
func (t *toucher) markAt(touch *emit.Touch, s *touched, b int64, at int, more int32) bool {
	m := emit.Mark{Memory: s.class, Kind: s.kind, More: more}
	if touch.Tells {
		m.By = [2]int32{s.by, s.by}
	}
	switch s.class.Base {
	case x86.RIP:
		m.Memory, m.At = x86.Memory{}, t.obj.Run(uint64(b))
	case x86.RSP:
		m.Memory.Disp = int32(b - int64(t.rsps[at]))
	default:
		m.Memory.Disp = int32(b)
	}
	if s.class.Addr32 && t.guards == nil {
		m.Memory.Disp, m.Ahead = m.Memory.Disp-int32(b-s.from), int32(b-s.from)
	}
	return addMark(touch, &m)
}

// addMark adds a mark, or adds its kind to one that is there.
func addMark(touch *emit.Touch, m *emit.Mark) bool {
	for i := range touch.Marks {
		if k := &touch.Marks[i]; k.Memory == m.Memory && k.At == m.At && k.More == m.More && k.Ahead == m.Ahead {
			return touch.Merge(i, m)
		}
	}
	if !touch.HasRoom(m) {
		return false
	}
	touch.Marks = append(touch.Marks, *m)
	return true
}

// movesStack is by how much an instruction moves the stack pointer, if that is known.
func movesStack(in *flow.Inst, code []byte, operands []x86.Operand) (by int32, known bool) {
	const (
		opAdd8, opAdd32 = 0x83, 0x81 // group 1
		add, sub        = 0, 5
		pushes          = 0x50 // to 0x57
		pops            = 0x58
		enter, leave    = 0xc8, 0xc9
	)
	legacy := in.Enc == x86.EncLegacy && in.Map == x86.MapLegacy
	rm, isReg := in.RM()
	switch {
	case legacy && (in.Op == enter || in.Op == leave):
		return 0, false
	case legacy && in.Op&^7 == pushes && len(operands) == 1:
		return -int32(operands[0].Size), true
	case legacy && in.Op&^7 == pops && len(operands) == 1 && in.Op&7|in.Rex&x86.RexB<<3 != x86.RSP:
		return int32(operands[0].Size), true
	case legacy && (in.Op == opAdd8 || in.Op == opAdd32) && isReg && rm == x86.RSP && in.Rex&x86.RexW != 0 && (in.ModRM>>3&7 == add || in.ModRM>>3&7 == sub):
		by = int32(int8(code[len(code)-1]))
		if in.Op == opAdd32 {
			by = int32(binary.LittleEndian.Uint32(code[len(code)-4:]))
		}
		if in.ModRM>>3&7 == sub {
			by = -by
		}
		return by, by > -1<<20 && by < 1<<20
	}
	for i := range operands {
		if operands[i].Base == x86.RSP && operands[i].Flags&x86.OperandImplicit != 0 {
			return 0, false
		}
	}
	// What may name it as a register.
	if in.HasModRM && (in.Reg() == x86.RSP || isReg && rm == x86.RSP) || legacy && (in.Op&7 == x86.RSP && !in.HasModRM) {
		return 0, false
	}
	return 0, in.Kind != x86.Syscall
}

// touch writes what is in front of an instruction. Alone says that this is in another run.
func (w *Writer) touch(op Op, alone bool) {
	t := &w.code.Touches[op.To]
	if t.Check {
		w.guard(t, op.Inst)
		return
	}
	w.runs.BeginTouch(w.asm, w.shown(op.Inst), t, alone)
	if t.Record != 0 || t.Looks {
		w.withCold(t, op.Inst)
	} else {
		t.Write(w.asm, w.touchUse())
	}
	w.runs.Touched(w.asm)
}

func (w *Writer) touchUse() *emit.TouchUse {
	w.use = emit.TouchUse{Word: w.counter.Saved, Mask: w.mask, Fix: w.fixer, By: &w.by}
	return &w.use
}
