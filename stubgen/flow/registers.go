package flow

import "github.com/dynprof/dynprof/internal/x86"

// DeadRegisters says for each instruction which general registers, as set bits by their numbers,
// nobody reads what they have in front of it: each way from there overwrites them in the graph
// first, and behind it they are not told apart. No calling convention is believed: wherever the
// graph is left, by calls, returns, jumps and system calls, all registers may be read, as hand-written
// assembly does, and callers in the same unit of a compiler, which know what a function leaves
// alone (gcc's -fipa-ra).
func (g *Graph) DeadRegisters(code func(in *Inst) []byte) []uint32 {
	type registers struct{ killed, read uint32 }
	effects := make([]registers, len(g.Insts))
	for i := range g.Insts {
		e := g.Insts[i].Effects(code(&g.Insts[i]))
		effects[i] = registers{e.Killed.G, e.Read.G}
	}
	dead, begin := make([]uint32, len(g.Insts)), make([]uint32, len(g.Blocks))
	for k := range begin {
		begin[k] = generalRegisters
	}
	for changed := true; changed; {
		changed = false
		for k := len(g.Blocks) - 1; k >= 0; k-- {
			b := &g.Blocks[k]
			at := uint32(0)
			if !g.isLeft(b) {
				at = generalRegisters
			}
			for _, e := range b.Succs {
				at &= begin[e.To]
			}
			for i := b.End - 1; i >= b.First; i-- {
				at = (at | effects[i].killed) &^ effects[i].read & generalRegisters
				dead[i] = at
			}
			if at != begin[k] {
				begin[k], changed = at, true
			}
		}
	}
	return dead
}

const generalRegisters = 0xffff &^ (1 << x86.RSP)

// isLeft reports whether control may leave the graph behind a block, if only for a while.
func (g *Graph) isLeft(b *Block) bool {
	switch g.Last(b).Kind {
	case x86.Call, x86.CallInd, x86.Syscall, x86.Ret, x86.JmpInd, x86.Trap:
		return true
	}
	return b.Leaves != 0 || len(b.Succs) == 0
}
