package flow

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// LiveFlags says for each instruction which status flags code may read that were set in
// front of it. By the System V ABI flags carry nothing into a function or out of one, so calls
// and returns read none, but as hand-written assembly may: calls of functions that read some
// at once, or leave some for behind the call (Block.Passes), and returns of the latter
// (Unit.Answers). Linux leaves them alone in a system call. Where a unit is left for the
// middle of another, all may be.
func (g *Graph) LiveFlags() []x86.FlagSet { return g.liveFlags(g.Unit.Answers) }

// FlagsForCallers is LiveFlags where any function may leave flags to its callers: so nothing is
// lost for those that find it by a pointer.
func (g *Graph) FlagsForCallers() []x86.FlagSet { return g.liveFlags(true) }

func (g *Graph) liveFlags(answers bool) []x86.FlagSet {
	live := make([]x86.FlagSet, len(g.Insts))
	begin := make([]x86.FlagSet, len(g.Blocks)) // of each block
	read := ByMiddle | ByFall
	if answers {
		read |= ByReturn | ByTail | ByIndirect
	}
	for changed := true; changed; {
		changed = false
		for k := len(g.Blocks) - 1; k >= 0; k-- {
			b := &g.Blocks[k]
			var at x86.FlagSet
			for _, e := range b.Succs {
				at |= begin[e.To]
			}
			if b.Passes || b.Leaves&read != 0 {
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
	case x86.Call, x86.CallInd, x86.Trap:
		return 0
	case x86.Ret, x86.Syscall:
		return after
	}
	read, written := in.Flags()
	return after&^written | read
}

// findAnswers marks the units that return flags: those of calls behind which some are read,
// and whom they jump to, or call last.
func (p *Program) findAnswers(found []*look) {
	var todo []*Unit
	mark := func(at uint64) {
		if k := p.UnitAt(at); k >= 0 && !p.units[k].Answers {
			p.units[k].Answers = true
			todo = append(todo, &p.units[k])
		}
	}
	for _, l := range found {
		for _, at := range l.answers {
			mark(at)
		}
	}
	var walk survey.FlagsWalk
	for len(todo) > 0 {
		u := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, r := range u.Ranges {
			survey.EachBranch(p.obj, r, func(in *x86.Inst, to, next uint64) {
				if in.Kind != x86.Call && !u.Contains(to) || in.Kind == x86.Call && walk.LiveToEnd(p.obj, next) {
					mark(to)
				}
			})
		}
	}
}
