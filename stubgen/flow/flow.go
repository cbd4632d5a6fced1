// Package flow is the flow of control in an object's functions: their instructions in
// blocks, how control comes to each block and where it goes from there, and the loops
// that these make. A function is looked at as a whole, with the cold parts that only it
// jumps to: that is a unit.
//
// It is what whole functions are translated by, and what people are shown of them. Like
// all of stubgen it is pure: it reads code as bytes, and believes no number in it.
package flow

import (
	"slices"
	"sort"

	"github.com/dynprof/dynprof/internal/x86"
)

// Graph is the flow graph of one unit.
type Graph struct {
	Unit   *Unit
	Insts  []Inst  // by address
	Blocks []Block // by address; the first is not always the one with the entry
	Entry  int     // block at the function's entry
	Tables []Table // jump tables, by address
}

// Inst is an instruction at a link-time address.
type Inst struct {
	Addr uint64
	To   uint64 // where a direct jump or call leads; else 0
	x86.Inst
}

// End is the first address behind an instruction.
func (in *Inst) End() uint64 { return in.Addr + uint64(in.Len) }

// Block is instructions that run one after the other: nothing arrives but at the first,
// and nothing leaves but behind the last, or by a fault. A block ends behind a call and
// a system call, too, which may not come back, or twice.
type Block struct {
	First, End int32 // Graph.Insts[First:End]
	Entered    Ways  // how control may come from outside of the graph
	Leaves     Ends  // how it may leave the graph behind the last instruction
	Passes     bool  // the function that it calls, or jumps to, may read status flags at once, or leave them
	Succs      []Edge
}

// Edge is a way from a block to another.
type Edge struct {
	To   int32 // number of the block
	Kind EdgeKind
}

// EdgeKind says how control takes an edge.
type EdgeKind uint8

// Kinds of edges.
const (
	Fall   EdgeKind = iota // it goes on with the next instruction
	Taken                  // by a direct jump
	Switch                 // by an indirect jump
	Return                 // what was called comes back
	Unwind                 // what was called throws, and the block catches
)

var edgeNames = [...]string{"fall", "taken", "switch", "return", "unwind"}

func (k EdgeKind) String() string { return edgeNames[k] }

// Ways is how control may come to a block from outside of the unit, or in a way that is
// no edge of the graph.
type Ways uint8

// Ways to come in.
const (
	ByEntry   Ways = 1 << iota // it begins at the function's entry
	ByPointer                  // its address is in data, or taken by code
	ByTable                    // it is in a jump table of the unit
	ByUnwind                   // the unwinder goes on there
	ByBranch                   // code of another unit jumps there
)

var wayNames = [...]string{"entry", "pointer", "table", "unwind", "branch"}

func (w Ways) String() string { return names(uint(w), wayNames[:]) }

// Ends is how control may leave a unit behind a block.
type Ends uint8

// Ways to leave.
const (
	ByReturn   Ends = 1 << iota // ret
	ByTail                      // a direct jump to the entry of another unit
	ByMiddle                    // a direct jump elsewhere out of the unit
	ByIndirect                  // an indirect jump that may lead out of the unit
	ByCall                      // a call, or system call, that may not come back
	ByTrap                      // an instruction that always faults
	ByFall                      // the range ends, and what follows is of another
)

var endNames = [...]string{"ret", "tail", "middle", "indirect", "call", "trap", "falls out"}

func (e Ends) String() string { return names(uint(e), endNames[:]) }

// names is the words of the bits that are set.
func names(bits uint, words []string) string {
	text := ""
	for i, w := range words {
		if bits>>i&1 == 0 {
			continue
		}
		if text != "" {
			text += " "
		}
		text += w
	}
	return text
}

// Last is the last instruction of a block.
func (g *Graph) Last(b *Block) *Inst { return &g.Insts[b.End-1] }

// Addr is where a block begins.
func (g *Graph) Addr(b *Block) uint64 { return g.Insts[b.First].Addr }

// Calls reports whether an instruction is a call.
func (in *Inst) Calls() bool { return in.Kind == x86.Call || in.Kind == x86.CallInd }

// Target is the number of the instruction that a direct jump leads to in the unit, -1 if
// it leads elsewhere, or is none.
func (g *Graph) Target(in *Inst) int {
	if in.Kind != x86.Jcc && in.Kind != x86.Jmp && in.Kind != x86.Loop {
		return -1
	}
	return g.InstAt(in.To)
}

// InstAt is the number of the instruction that starts at an address, -1 if none does.
func (g *Graph) InstAt(at uint64) int {
	i := sort.Search(len(g.Insts), func(i int) bool { return g.Insts[i].Addr >= at })
	if i == len(g.Insts) || g.Insts[i].Addr != at {
		return -1
	}
	return i
}

// Cut splits the blocks in front of the instructions named: there control may come from
// outside, too.
func (g *Graph) Cut(insts []int32) {
	for _, i := range insts {
		k := g.BlockOf(i)
		if g.Blocks[k].First == i {
			continue
		}
		g.Blocks = slices.Insert(g.Blocks, k+1, g.Blocks[k])
		g.Blocks[k+1].First, g.Blocks[k+1].Entered = i, 0
		b := &g.Blocks[k]
		b.End, b.Leaves = i, 0
		for n := range g.Blocks {
			for e := range g.Blocks[n].Succs {
				if to := &g.Blocks[n].Succs[e].To; int(*to) > k {
					*to++
				}
			}
		}
		if g.Entry > k {
			g.Entry++
		}
		b.Succs = []Edge{{int32(k + 1), Fall}}
	}
}

// BlockOf is the number of the block that has an instruction.
func (g *Graph) BlockOf(inst int32) int {
	return sort.Search(len(g.Blocks), func(k int) bool { return g.Blocks[k].End > inst })
}
