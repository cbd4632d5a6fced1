package flow

import (
	"cmp"
	"slices"
	"sync"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// builder makes graphs one after the other, with the same scratch space.
type builder struct {
	p     *Program
	g     *Graph
	bytes []int32   // what at is on
	at    [][]int32 // by range of the unit and byte: the instruction that starts there + 1
	ways  []Ways    // by instruction: how control comes to it, but for edges
	leads []bool    // by instruction, and one more: a block begins there
	block []int32   // by instruction: the block that it begins, where it does
	edges []Edge    // of the blocks so far
	takes []uint64  // addresses that may be those of jump tables
	walk  survey.FlagsWalk
	why   ledger.Reason
}

// Graph makes the graph of a unit, or says why there is none. It may be asked by several
// goroutines at once.
func (p *Program) Graph(unit int) (*Graph, ledger.Reason) {
	u := &p.units[unit]
	if u.Reason != ledger.ReasonNone {
		return nil, u.Reason
	}
	b := builders.Get().(*builder)
	defer builders.Put(b)
	b.p, b.g, b.why = p, &Graph{Unit: u}, ledger.ReasonNone
	for _, step := range []func(){b.decode, b.arrive, b.readTables, b.lead, b.cut, b.connect, b.reach} {
		if step(); b.why != ledger.ReasonNone {
			return nil, b.why
		}
	}
	return b.g, ledger.ReasonNone
}

// builders are those that nobody uses.
var builders = sync.Pool{New: func() any { return new(builder) }}

// cleared is a slice of n zeros, the same as before if it is long enough.
func cleared[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// mostInsts bounds the instructions of a unit. The largest of those of TestPrograms has
// 68,636, in cc1.
const mostInsts = 1 << 22

// decode fills in the instructions, in the order of their addresses.
func (b *builder) decode() {
	u := b.g.Unit
	order := slices.Clone(u.Ranges)
	slices.SortFunc(order, func(x, y elfscan.Range) int { return cmp.Compare(x.Low, y.Low) })
	b.at = cleared(b.at, len(u.Ranges))
	const usual = 4 // bytes of an instruction
	size := uint64(0)
	for _, r := range order {
		size += min(r.High-r.Low, uint64(len(b.p.obj.Code(r.Low))))
	}
	if size > mostInsts*x86.MaxLen {
		b.why = ledger.ReasonNotMapped
		return
	}
	b.bytes = cleared(b.bytes, int(size))
	left := b.bytes
	b.g.Insts = make([]Inst, 0, min(size/usual+1, mostInsts))
	for _, r := range order {
		code := b.p.obj.Code(r.Low)
		n := r.High - r.Low
		if uint64(len(code)) < n || n > mostInsts*x86.MaxLen {
			b.why = ledger.ReasonNotMapped
			return
		}
		starts := left[:n]
		left = left[n:]
		b.at[slices.Index(u.Ranges, r)] = starts
		for at := 0; at < int(n); {
			in := Inst{Addr: r.Low + uint64(at)}
			if x86.Decode(code[at:n], &in.Inst) != nil || len(b.g.Insts) == mostInsts {
				b.why = ledger.ReasonUndecodable
				return
			}
			if in.Kind == x86.Xbegin || in.OpSizeBranch() || in.Far() {
				b.why = ledger.ReasonUnsupported
				return
			}
			in.To = in.BranchTarget(code[at:], in.Addr)
			b.g.Insts = append(b.g.Insts, in)
			starts[at] = int32(len(b.g.Insts))
			at += int(in.Len)
		}
	}
	b.ways = cleared(b.ways, len(b.g.Insts))
	b.leads = cleared(b.leads, len(b.g.Insts)+1)
	b.block = cleared(b.block, len(b.g.Insts)+1)
	b.takes = b.takes[:0]
}

// find is the number of the instruction that starts at addr, or -1; inside says that
// the address lies in the unit all the same.
func (b *builder) find(addr uint64) (i int, inside bool) {
	for k, r := range b.g.Unit.Ranges {
		if addr-r.Low < r.High-r.Low {
			return int(b.at[k][addr-r.Low]) - 1, true
		}
	}
	return -1, false
}

// code is the bytes of an instruction, and some behind it.
func (b *builder) code(in *Inst) []byte { return b.p.obj.Code(in.Addr) }

// arrive notes how control comes to the unit's instructions from outside. Where that is
// surely inside an instruction the code is not what it looks like.
func (b *builder) arrive() {
	u := b.g.Unit
	entry, _ := b.find(u.Entry())
	b.ways[entry] |= ByEntry
	for _, r := range u.Ranges {
		for _, a := range b.p.arrivalsIn(r.Low, r.High) {
			switch i, _ := b.find(a.at); {
			case i >= 0:
				b.ways[i] |= a.ways
			case a.sure && a.ways != ByPointer: // a pointer may be one to data among code
				b.why = ledger.ReasonInsideInstruction
				return
			}
		}
	}
	// The callee of a call that is followed by a ret may be gcc's __morestack, of
	// -fsplit-stack. It comes back behind that first, and then to it.
	for i := 2; i < len(b.g.Insts); i++ {
		call, ret := &b.g.Insts[i-2], &b.g.Insts[i-1]
		if call.Kind == x86.Call && ret.Kind == x86.Ret && ret.Addr == call.End() && b.g.Insts[i].Addr == ret.End() {
			b.ways[i] |= ByBranch
		}
	}
}
