package keep

import (
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
)

// flow is the code of one function, instruction by instruction. It is scratch space:
// use one for each goroutine.
type flow struct {
	*registers
	function    int
	low, high   uint64
	code        []byte
	list        []step
	at          []int32    // by offset in the code: the instruction there, -1 if none starts
	table       bool       // it seems to read a jump table
	first       bool       // nothing is known of other functions
	exit        x86.RegSet // what is read behind its return
	edges       []edge
	news        []news
	points      []entryPoint
	behindCalls []behindCall
	joins       []uint64
}

// step is one instruction.
type step struct {
	x86.Effects
	live    x86.RegSet // in front of it
	defined x86.RegSet // in front of it: what may have a value
	target  uint64     // of a direct branch
	to      int32      // the instruction there; -1: it is not of this function
	callee  int32      // function called, or jumped to; -1: not known
	offset  uint32
	kind    x86.Kind
	len     uint8
	looped  bool // something further on leads to it
	tail    bool // an indirect jump that leaves the function
	stack   stackUse
	depth   int32 // bytes on the stack, above the return address; unknownDepth
	frame   int32 // of RBP, if it is a frame pointer
}

// decode reads function i.
func (f *flow) decode(i int) {
	o := f.registers.o
	f.function, f.code, f.low = i, o.Body(i), o.Functions[i].Addr
	f.high = f.low + uint64(len(f.code))
	f.list, f.at, f.table = f.list[:0], f.at[:0], false
	for range f.code {
		f.at = append(f.at, -1)
	}
	var in x86.Inst
	for at := 0; at < len(f.code); {
		code := f.code[at:]
		if x86.Decode(code, &in) != nil {
			at++
			continue
		}
		f.at[at] = int32(len(f.list))
		f.add(&in, code, at)
		at += int(in.Len)
	}
	for k := range f.list {
		f.join(&f.list[k])
	}
}

func (f *flow) add(in *x86.Inst, code []byte, at int) {
	st := step{Effects: in.Effects(code), offset: uint32(at), kind: in.Kind, len: in.Len, to: -1, callee: -1, depth: unknownDepth, frame: unknownDepth}
	pc := f.low + uint64(at)
	st.stack = stackUseOf(in, code, st.Written)
	switch in.Kind {
	case x86.Call, x86.Jmp, x86.Jcc, x86.Loop, x86.Xbegin:
		st.target = in.BranchTarget(code, pc)
	case x86.JmpInd:
		st.tail = !indexed(in, code)
	case x86.Plain:
		f.table = f.table || indexed(in, code) && (in.Op == opMovsxd || in.Op == opMovLoad)
	}
	f.list = append(f.list, st)
}

const (
	opMovsxd  = 0x63
	opMovLoad = 0x8b
)

// indexed reports a memory operand like that of a jump table: an index times 4 or
// 8.
func indexed(in *x86.Inst, code []byte) bool {
	if !in.HasModRM || in.ModRM >= 0xc0 || in.ModRM&7 != 4 || in.Map != x86.MapLegacy {
		return false
	}
	return code[in.ModRMOff+1] >= 0x80
}

// join finds where a direct branch leads.
func (f *flow) join(st *step) {
	switch st.kind {
	case x86.Call:
		st.callee = f.known(st.target)
		return
	case x86.JmpInd:
		st.tail = st.tail && !f.table
		return
	case x86.Jmp, x86.Jcc, x86.Loop, x86.Xbegin:
	default:
		return
	}
	if off := st.target - f.low; off < uint64(len(f.code)) {
		if st.to = f.at[off]; st.to >= 0 && off <= uint64(st.offset) {
			f.list[st.to].looped = true
		}
		return
	}
	st.callee = f.known(st.target)
}

// falls reports whether code may go on behind the instruction.
func (st *step) falls() bool {
	switch st.kind {
	case x86.Jmp, x86.JmpInd, x86.Ret, x86.Trap:
		return false
	}
	return true
}

// behind is the function that starts right behind this one, if it falls into that;
// else -1. A call at the end does not come back.
func (f *flow) behind() int32 {
	last := &f.list[len(f.list)-1]
	if !last.falls() || last.kind == x86.Call || last.kind == x86.CallInd {
		return -1
	}
	return f.known(f.high)
}

// owner is the function whose middle target is in, -1 if there is none.
func (f *flow) owner(target uint64) int32 {
	o := f.registers.o
	j := o.FunctionAt(target)
	if j < 0 || target >= o.Functions[j].Addr+o.Functions[j].Size {
		return -1
	}
	return int32(j)
}

// summarise finds what the function does by itself, and its edges.
func (f *flow) summarise(m *summary) {
	for k := range f.list {
		st := &f.list[k]
		m.written, m.exposed = m.written.Or(st.Written), m.exposed.Or(st.Read)
		m.wide = m.wide || (st.Read.V|st.Killed.V|uint64(st.Read.G|st.Killed.G))>>16 != 0
		if !st.leaves() {
			continue
		}
		to := f.leadsTo(st)
		if to >= 0 && st.callee < 0 {
			f.joins = append(f.joins, st.target)
		}
		m.exposed = m.exposed.Or(x86.Arguments)
		switch {
		case to >= 0 && int(to) != f.function:
			f.edges = append(f.edges, edge{int32(f.function), to, st.kind != x86.Call, st.isShifted(), max(st.depth, 0)})
		case to < 0 && (st.kind != x86.JmpInd || st.tail):
			m.unseen = true
		}
	}
	if len(f.list) > 0 && f.behind() >= 0 {
		f.edges = append(f.edges, edge{from: int32(f.function), to: f.behind(), jump: true})
	}
	m.exposed = m.narrow(m.exposed)
	m.stack = int16(f.stackWords())
}

// leaves reports whether the instruction leads to another function.
func (st *step) leaves() bool {
	switch st.kind {
	case x86.Call, x86.CallInd, x86.JmpInd:
		return true
	case x86.Jmp, x86.Jcc, x86.Loop, x86.Xbegin:
		return st.to < 0
	}
	return false
}

// isShifted reports a call with the stack pointer at a multiple of 8 only, if it
// was as it should be at the entry.
func (st *step) isShifted() bool {
	return st.kind == x86.Call && st.depth != unknownDepth && st.depth%16 == 0
}

// leadsTo is the function that a direct call or jump leads to, or into; -1 if it
// is not known.
func (f *flow) leadsTo(st *step) int32 {
	if st.callee >= 0 || st.kind == x86.Call || st.kind == x86.CallInd || st.kind == x86.JmpInd {
		return st.callee
	}
	return f.owner(st.target)
}

// liveIn is what the function reads before it writes it. What its callers read
// behind it is not among that. first says that of other functions nothing is known
// yet; then it also reports whether that matters.
func (f *flow) liveIn(first bool) (is x86.RegSet, guessed bool) {
	if len(f.list) == 0 {
		return x86.RegSet{}, false
	}
	f.first, f.exit = first, x86.RegSet{}
	f.liveness()
	is = f.list[0].live
	return is, first && is.And(x86.Arguments).Without(x86.RegSet{G: 1<<x86.RDI | 1<<x86.RSI | 1<<x86.RDX}) != x86.RegSet{}
}

// liveness finds what is live in front of each instruction.
func (f *flow) liveness() {
	for k := range f.list {
		f.list[k].live = x86.RegSet{}
	}
	for again := true; again; {
		again = false
		for k := len(f.list) - 1; k >= 0; k-- {
			st := &f.list[k]
			live := st.Read.Or(f.liveBehind(k).Without(st.Killed))
			if live != st.live {
				st.live = live
				again = again || st.looped
			}
		}
	}
}

// look is what the function's code, with what is known of others, tells of them.
func (f *flow) look() {
	if len(f.list) == 0 {
		return
	}
	f.first, f.exit = false, f.sum[f.function].exit
	f.liveness()
	f.define()
	f.report()
}

// liveBehind is what is read behind instruction k and what it calls.
func (f *flow) liveBehind(k int) x86.RegSet {
	st := &f.list[k]
	switch st.kind {
	case x86.Ret:
		return f.exit
	case x86.Trap:
		return x86.RegSet{}
	case x86.Call, x86.CallInd:
		return f.through(st.callee, f.next(k))
	case x86.JmpInd:
		if st.tail {
			return f.through(-1, f.exit)
		}
		return f.sum[f.function].exposed.Or(f.exit)
	case x86.Jmp:
		return f.there(st)
	case x86.Jcc, x86.Loop, x86.Xbegin:
		return f.there(st).Or(f.next(k))
	}
	return f.next(k)
}

// through is what is read by function i, -1 if it is not known, and behind it.
func (f *flow) through(i int32, behind x86.RegSet) x86.RegSet {
	if i < 0 || f.first && int(i) != f.function {
		return f.sum[f.function].narrow(x86.Arguments).Or(behind.Without(x86.CallerSaved))
	}
	to := &f.sum[i]
	return to.liveIn.Or(behind.Without(to.written))
}

// next is what is live behind instruction k, where code goes on.
func (f *flow) next(k int) x86.RegSet {
	if k+1 < len(f.list) {
		return f.list[k+1].live
	}
	if to := f.behind(); to >= 0 {
		return f.through(to, f.exit)
	}
	return x86.RegSet{}
}

// there is what is live where a direct jump leads. In the middle of another
// function it is all that may be.
func (f *flow) there(st *step) x86.RegSet {
	switch {
	case st.to >= 0:
		return f.list[st.to].live
	case st.callee >= 0 && f.isAnyPart(st.callee) && !f.first:
		return f.sum[st.callee].liveIn.Or(f.exit)
	case st.callee >= 0 && !f.isAnyPart(st.callee):
		return f.through(st.callee, f.exit)
	}
	if j := f.owner(st.target); j >= 0 && !f.first {
		return f.sum[j].exposed.Or(f.exit)
	}
	return f.sum[f.function].narrow(x86.Arguments).Or(f.exit)
}

// define finds which registers may have a value, in front of each instruction. All
// have at the start, and where another function jumps to.
func (f *flow) define() {
	for k := range f.list {
		f.list[k].defined = x86.RegSet{}
	}
	f.list[0].defined = x86.CallerSaved.Or(f.sum[f.function].narrow(x86.CallerSaved))
	joins := f.registers.joins
	for n, _ := slices.BinarySearch(joins, f.low); n < len(joins) && joins[n] < f.high; n++ {
		if k := f.at[joins[n]-f.low]; k >= 0 {
			f.list[k].defined = f.list[0].defined
		}
	}
	for again := true; again; {
		again = false
		give := func(k int32, is x86.RegSet) {
			if int(k) < len(f.list) && !is.Without(f.list[k].defined).Empty() {
				f.list[k].defined, again = f.list[k].defined.Or(is), true
			}
		}
		for k := range f.list {
			st := &f.list[k]
			is := st.defined.Or(st.Written)
			switch {
			case st.kind == x86.Call && st.callee >= 0 && !f.sum[st.callee].unseen:
				is = is.Or(f.sum[st.callee].written)
			case st.kind == x86.Call, st.kind == x86.CallInd:
				is = is.Without(x86.CallerSaved).Or(x86.Results)
			case st.kind == x86.JmpInd && !st.tail:
				f.scatter(is, give)
			}
			if st.to >= 0 {
				give(st.to, is)
			}
			if st.falls() {
				give(int32(k+1), is)
			}
		}
	}
}

// scatter gives what a jump by a table hands on to where it may lead: behind each
// instruction that does not go on to the next, and behind calls, which may not.
// Where other code goes on to a case it has what the case reads as well.
func (f *flow) scatter(is x86.RegSet, give func(int32, x86.RegSet)) {
	for k := range f.list {
		if st := &f.list[k]; !st.falls() || st.kind == x86.Call || st.kind == x86.CallInd {
			give(int32(k+1), is)
		}
	}
}

// report tells what is read behind calls of others.
func (f *flow) report() {
	for k := range f.list {
		st := &f.list[k]
		switch {
		case st.kind == x86.Call:
			if to := st.callee; to >= 0 {
				f.tell(to, f.next(k).And(st.defined.Or(f.sum[to].written)))
			}
		case st.leaves() && st.kind != x86.JmpInd && st.kind != x86.CallInd:
			f.reportJump(f.leadsTo(st), st.callee < 0)
		}
	}
	f.reportJump(f.behind(), false)
}

// reportJump is for a jump to function to. What is behind its return is behind this
// one's; a cold part's is its function's.
func (f *flow) reportJump(to int32, middle bool) {
	m := &f.sum[f.function]
	switch {
	case to < 0 || int(to) == f.function:
	case f.isAnyPart(to):
		f.tell(to, m.exit)
	case f.isAnyPart(int32(f.function)) && middle: // back to where it came from
	default:
		f.tell(to, m.relied)
	}
}

// tell says that registers are read behind function to.
func (f *flow) tell(to int32, is x86.RegSet) {
	m := &f.sum[to]
	if m.unseen && !f.isAnyPart(to) {
		return
	}
	if !is.Without(m.relied).Empty() {
		f.news = append(f.news, news{to, is})
	}
}
