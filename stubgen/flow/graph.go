package flow

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
)

// lead finds where blocks begin.
func (b *builder) lead() {
	for i, ways := range b.ways {
		b.leads[i] = ways != 0
	}
	for i := range b.g.Insts {
		in := &b.g.Insts[i]
		switch in.Kind {
		case x86.Jcc, x86.Jmp, x86.Loop:
			to, inside := b.find(in.To)
			if to < 0 && inside && b.isBehindLock(in.To) {
				in.To--
				to, _ = b.find(in.To)
			}
			if to < 0 && inside {
				b.why = ledger.ReasonInsideInstruction
				return
			}
			if to >= 0 {
				b.leads[to] = true
			}
		}
		if ends(in) || i+1 < len(b.g.Insts) && b.g.Insts[i+1].Addr != in.End() {
			b.leads[i+1] = true
		}
	}
}

// isBehindLock reports whether an address is that of an instruction but for its lock prefix, which
// code of one thread jumps over, as in malloc. In a graph it is a jump to the instruction with it,
// which does the same.
func (b *builder) isBehindLock(addr uint64) bool {
	i, _ := b.find(addr - 1)
	return i >= 0 && b.g.Insts[i].Prefix&x86.PrefixLock != 0 && b.code(&b.g.Insts[i])[0] == opLock
}

const opLock = 0xf0

// ends reports whether a block ends behind an instruction.
func ends(in *Inst) bool {
	switch in.Kind {
	case x86.Jcc, x86.Jmp, x86.Loop, x86.JmpInd, x86.Call, x86.CallInd, x86.Ret, x86.Syscall, x86.Trap:
		return true
	}
	return false
}

// cut makes the blocks.
func (b *builder) cut() {
	n := 0
	for i := range b.g.Insts {
		if b.leads[i] || i == 0 {
			n++
		}
	}
	b.g.Blocks = make([]Block, 0, n)
	for i := 0; i < len(b.g.Insts); {
		end := i + 1
		for end < len(b.g.Insts) && !b.leads[end] {
			end++
		}
		b.block[i] = int32(len(b.g.Blocks))
		if b.ways[i]&ByEntry != 0 {
			b.g.Entry = len(b.g.Blocks)
		}
		b.g.Blocks = append(b.g.Blocks, Block{First: int32(i), End: int32(end), Entered: b.ways[i]})
		i = end
	}
}

// mostSwitched bounds the edges of indirect jumps, each of which leads to all that is in
// tables: a file may be made of nothing else. python3.11's interpreter has 42,770, the most
// that is known.
const mostSwitched = 1 << 20

// connect gives the blocks their edges and ends.
func (b *builder) connect() {
	anywhere, left := b.switched(), mostSwitched
	b.edges = make([]Edge, 0, 2*len(b.g.Blocks)) // about as many: one array for all blocks
	for k := range b.g.Blocks {
		bl, first := &b.g.Blocks[k], len(b.edges)
		switch last := b.g.Last(bl); last.Kind {
		case x86.Jcc, x86.Loop:
			b.fall(bl, Fall)
			b.jump(bl, last)
		case x86.Jmp:
			b.jump(bl, last)
		case x86.JmpInd:
			bl.Leaves |= ByIndirect
			if !isMemoryJump(last) {
				if left -= len(anywhere); left < 0 {
					b.why = ledger.ReasonUndecodable
					return
				}
				b.edges = append(b.edges, anywhere...)
			}
		case x86.Ret:
			bl.Leaves |= ByReturn
		case x86.Trap:
			b.trap(bl, last)
		case x86.Call, x86.CallInd:
			bl.Leaves |= ByCall
			bl.Passes = last.Kind == x86.Call && b.passes(last.To)
			if !b.isPopped(last) {
				b.fall(bl, Return)
			}
			b.catch(last)
		case x86.Syscall:
			bl.Leaves |= ByCall
			b.fall(bl, Return)
		default:
			b.fall(bl, Fall)
		}
		bl.Succs = b.edges[first:len(b.edges):len(b.edges)]
	}
}

// isMemoryJump reports `jmp *x(%rip)`, as of a PLT: never a jump of a table.
func isMemoryJump(in *Inst) bool { return in.RIPRel() }

// switched is the edges of an indirect jump: to all that is in tables, and to all whose
// address is taken, as of labels.
func (b *builder) switched() (edges []Edge) {
	for i, ways := range b.ways {
		if ways&(ByTable|ByPointer) != 0 {
			edges = append(edges, Edge{b.block[i], Switch})
		}
	}
	return edges
}

func (b *builder) jump(bl *Block, last *Inst) {
	if to, _ := b.find(last.To); to >= 0 {
		b.edges = append(b.edges, Edge{b.block[to], Taken})
	} else if k := b.p.UnitAt(last.To); k >= 0 && b.p.units[k].Entry() == last.To {
		bl.Leaves |= ByTail
		bl.Passes = b.passes(last.To)
	} else {
		bl.Leaves |= ByMiddle
	}
}

// passes reports whether a function may read status flags, or leave them to who calls it.
func (b *builder) passes(to uint64) bool {
	k := b.p.UnitAt(to)
	return k >= 0 && b.p.units[k].Answers || b.walk.Live(b.p.obj, to)
}

// fall adds the edge to what follows a block. Behind a call that does not come back
// there may be nothing.
func (b *builder) fall(bl *Block, kind EdgeKind) {
	end := b.g.Insts[bl.End-1].End()
	switch {
	case int(bl.End) < len(b.g.Insts) && b.g.Insts[bl.End].Addr == end:
		b.edges = append(b.edges, Edge{b.block[bl.End], kind})
	case kind == Fall:
		bl.Leaves |= ByFall
	}
}

// isPopped reports whether a call leads to a pop in the unit: what is behind the call is data,
// whose address is taken so.
func (b *builder) isPopped(call *Inst) bool {
	i, _ := b.find(call.To)
	return call.Kind == x86.Call && i >= 0 && b.g.Insts[i].Map == x86.MapLegacy && b.g.Insts[i].Op&^7 == opPop
}

const opPop = 0x58

// trap: `int n` is a request to somebody, and goes on; the others are ends.
func (b *builder) trap(bl *Block, last *Inst) {
	const opInt = 0xcd
	if last.Map == x86.MapLegacy && last.Op == opInt {
		b.fall(bl, Fall)
		return
	}
	bl.Leaves |= ByTrap
}

// catch adds the edges to where the unwinder goes on if a call throws.
func (b *builder) catch(last *Inst) {
	sites := b.p.sites
	k, found := slices.BinarySearchFunc(sites, last.Addr, func(s elfscan.CallSite, at uint64) int { return cmp.Compare(s.Low, at) })
	if !found {
		k--
	}
	if k < 0 || last.Addr >= sites[k].High {
		return
	}
	if to, _ := b.find(sites[k].Pad); to >= 0 {
		b.edges = append(b.edges, Edge{b.block[to], Unwind})
	}
}

// reach looks whether all code is come to. If nothing leads to some, it is not code, or
// control comes in a way that is not known, and nobody knows to where else: by a table that is
// found in another way than by its address, as of -mcmodel=large, or by an address that is
// computed. So it is where a jump computes its target, and there is no table.
//
// A pointer to what nothing else leads to is one to code if the unit has indirect jumps; else it
// may be one to data among code, which must not be overwritten, nor be in a copy.
func (b *builder) reach() {
	seen := make([]bool, len(b.g.Blocks))
	var todo []int32
	come := func(k int32) {
		if !seen[k] {
			seen[k] = true
			todo = append(todo, k)
		}
	}
	trusted := ^ByPointer
	if b.p.obj.Functions[b.g.Unit.Function].Excluded == ledger.ReasonColdPart { // made by a compiler; others jump there
		trusted |= ByPointer
	}
	for k := range b.g.Blocks {
		if last := b.g.Last(&b.g.Blocks[k]); last.Kind == x86.JmpInd && !isMemoryJump(last) {
			trusted |= ByPointer
		}
	}
	for k := range b.g.Blocks {
		if b.g.Blocks[k].Entered&trusted != 0 {
			come(int32(k))
		}
	}
	for len(todo) > 0 {
		k := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range b.g.Blocks[k].Succs {
			come(e.To)
		}
	}
	for k := range b.g.Blocks {
		bl := &b.g.Blocks[k]
		if !seen[k] && !b.isPadding(bl) || len(b.g.Tables) == 0 && b.isComputed(bl) {
			b.why = ledger.ReasonUndecodable
			return
		}
	}
	for _, t := range b.g.Tables {
		if b.g.Unit.Contains(t.Addr) {
			b.why = ledger.ReasonUndecodable
			return
		}
	}
}

// isComputed reports whether a block ends by a jump to an address that it has computed, and
// not only loaded: by a table, or through a return, as of a retpoline.
func (b *builder) isComputed(bl *Block) bool {
	last := b.g.Last(bl)
	r, inReg := last.RM()
	switch {
	case last.Kind == x86.Ret:
		return bl.End-bl.First > 1 && pushes(&b.g.Insts[bl.End-2], b.code(&b.g.Insts[bl.End-2]))
	case last.Kind != x86.JmpInd || !inReg:
		return false
	}
	for i := bl.End - 2; i >= bl.First; i-- {
		in := &b.g.Insts[i]
		if e := in.Effects(b.code(in)); e.Written.Has(r) {
			return in.Map == x86.MapLegacy && (in.Op == opAddRM || in.Op == opAddReg || in.Op == opLea && !in.RIPRel())
		}
	}
	return false
}

// pushes reports whether an instruction puts a register where a return finds its address.
func pushes(in *Inst, code []byte) bool {
	m, isMemory := in.Memory(code)
	return in.Map == x86.MapLegacy && in.Enc == x86.EncLegacy && (in.Op&^7 == opPush ||
		in.Op == opMovStore && isMemory && m.Base == x86.RSP && m.Index == x86.NoRegister && m.Disp == 0)
}

const opPush = 0x50

// isPadding reports whether nothing is in a block that anybody would go to.
func (b *builder) isPadding(bl *Block) bool {
	for i := bl.First; i < bl.End; i++ {
		if in := &b.g.Insts[i]; in.Kind != x86.Nop && in.Kind != x86.Trap {
			return false
		}
	}
	return true
}
