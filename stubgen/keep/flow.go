package keep

import "github.com/dynprof/dynprof/internal/x86"

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
