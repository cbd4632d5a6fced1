package flow

import "github.com/dynprof/dynprof/internal/x86"

// LiveFlags says for each instruction which status flags code may read that were set in
// front of it. By the System V ABI flags carry nothing into a function or out of one
// (A.2.1 for system calls), so calls and returns read none, but for calls of functions that
// read some at once (Block.Passes), as hand-written assembly may; where a unit is left for
// the middle of another, all may be.
func (g *Graph) LiveFlags() []x86.FlagSet {
	live := make([]x86.FlagSet, len(g.Insts))
	begin := make([]x86.FlagSet, len(g.Blocks)) // of each block
	for changed := true; changed; {
		changed = false
		for k := len(g.Blocks) - 1; k >= 0; k-- {
			b := &g.Blocks[k]
			var at x86.FlagSet
			for _, e := range b.Succs {
				at |= begin[e.To]
			}
			if b.Passes || b.Leaves&(ByMiddle|ByFall) != 0 {
				at = x86.FlagsAll
			}
			for i := b.End - 1; i >= b.First; i-- {
				if !b.Passes || g.Insts[i].Kind != x86.Call {
					at = before(&g.Insts[i], at)
				}
				live[i] = at
			}
			if at != begin[k] {
				begin[k], changed = at, true
			}
		}
	}
	return live
}

// before is what is live in front of an instruction, if after is behind it.
func before(in *Inst, after x86.FlagSet) x86.FlagSet {
	switch in.Kind {
	case x86.Call, x86.CallInd, x86.Ret, x86.Syscall, x86.Trap:
		return 0
	}
	read, written := in.Flags()
	return after&^written | read
}
