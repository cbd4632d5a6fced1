package translate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Code is the copy of a unit before it is encoded: what passes put counters into, and
// people can read.
type Code struct {
	Home   *Home
	Ops    []Op
	Begins []int32 // by block of the graph: its first Op
	Laps   bool    // jumps of the unit to its own entry go by a counter of their own,
	Keep   bool    // and flags are live there
}

// Op is an instruction of the copy, or several that belong together.
type Op struct {
	Kind OpKind
	Inst int32 // number of the instruction that it is of
	To   int32 // block that a Jump or Branch leads to; counter of a Count
	Keep bool  // of a Count: flags are live there, and saved
}

// OpKind is what an Op does.
type OpKind uint8

// Kinds of Ops.
const (
	Same   OpKind = iota // what the instruction does
	Branch               // its direct jump, to the copy of a block
	Leave                // its direct jump, out of the unit
	Follow               // a jump to what follows it, out of the unit
	Stay                 // a jump to the instruction's old place, where it runs
	Push                 // the call, as a push of the original return address and a jump
	Count                // one more for a counter
)

// Lower makes the copy of a unit, without counters. It cuts blocks of the graph where
// control comes back from home.
func Lower(h *Home) *Code {
	g := h.Graph
	var cuts []int32
	for _, r := range h.Runs {
		if r.Resume >= 0 {
			cuts = append(cuts, r.Resume)
		}
	}
	for _, l := range h.Landings {
		cuts = append(cuts, l.Inst)
	}
	g.Cut(cuts)
	stays := map[int32]bool{} // by instruction: whether its call is a pushed one
	for _, r := range h.Runs {
		for i := r.First; i < r.End; i++ {
			if in := &g.Insts[i]; staysHome(in) {
				stays[i] = i == r.First && r.Pushed
			}
		}
	}
	c := &Code{Home: h, Begins: make([]int32, len(g.Blocks))}
	for k := range g.Blocks {
		c.Begins[k] = int32(len(c.Ops))
		c.block(&g.Blocks[k], stays)
	}
	return c
}

func (c *Code) block(b *flow.Block, stays map[int32]bool) {
	g := c.Home.Graph
	for i := b.First; i < b.End; i++ {
		in := &g.Insts[i]
		pushed, stay := stays[i]
		switch {
		case stay && pushed:
			c.add(Push, i, 0)
		case stay:
			c.add(Stay, i, 0)
		case in.Kind == x86.Jcc, in.Kind == x86.Jmp, in.Kind == x86.Loop:
			if to := g.Target(in); to >= 0 {
				c.add(Branch, i, int32(g.BlockOf(int32(to))))
			} else {
				c.add(Leave, i, 0)
			}
		default:
			c.add(Same, i, 0)
		}
	}
	if last := b.End - 1; b.Leaves&flow.ByFall != 0 {
		c.add(Follow, last, 0)
	}
}

// ops are those of a block.
func (c *Code) ops(k int) []Op {
	if k+1 < len(c.Begins) {
		return c.Ops[c.Begins[k]:c.Begins[k+1]]
	}
	return c.Ops[c.Begins[k]:]
}

func (c *Code) add(kind OpKind, inst, to int32) {
	c.Ops = append(c.Ops, Op{Kind: kind, Inst: inst, To: to})
}

// CountBlocks puts a counter, with the number of the block, into each but the entry's,
// which runs as often as the function is called, and jumps of its own lead there; of
// those the counter has that number. It is in front of the first instruction where
// no flag is live that a count changes, or, where there is none, at the block's beginning,
// with the flags saved.
func (c *Code) CountBlocks() {
	g := c.Home.Graph
	live := g.LiveFlags()
	for k := range g.Blocks {
		c.Laps = c.Laps || slices.ContainsFunc(g.Blocks[k].Succs, func(e flow.Edge) bool { return int(e.To) == g.Entry })
	}
	ops := make([]Op, 0, len(c.Ops)+len(g.Blocks))
	for k := range g.Blocks {
		begin := c.Begins[k]
		end := begin + int32(len(c.ops(k)))
		at, keep := begin, true
		for i := begin; i < end && keep; i++ {
			if live[c.Ops[i].Inst]&countsChange == 0 {
				at, keep = i, false
			}
		}
		c.Begins[k] = int32(len(ops))
		ops = append(ops, c.Ops[begin:at]...)
		if k == g.Entry {
			c.Keep = keep || at > begin
		} else {
			ops = append(ops, Op{Kind: Count, Inst: g.Blocks[k].First, To: int32(k), Keep: keep})
		}
		ops = append(ops, c.Ops[at:end]...)
	}
	c.Ops = ops
}

// countsChange is what an increment writes and somebody may mean to read: not AF.
const countsChange = x86.FlagsAll &^ x86.FlagCF &^ x86.FlagAF

// Text is the copy for people.
func (c *Code) Text(o *stubgen.Object) string {
	var out strings.Builder
	g := c.Home.Graph
	for k := range g.Blocks {
		fmt.Fprintf(&out, "b%d\n", k)
		for _, op := range c.ops(k) {
			in := &g.Insts[op.Inst]
			text := x86.Text(o.Code(in.Addr), in.Addr)
			switch op.Kind {
			case Same:
			case Branch:
				text = fmt.Sprintf("%s  -> b%d", text, op.To)
			case Leave:
				text = "out: " + text
			case Follow:
				text = fmt.Sprintf("out: jmp %x", in.End())
			case Stay:
				text = fmt.Sprintf("home %x: %s", in.Addr, text)
			case Push:
				text = "push: " + text
			case Count:
				text = fmt.Sprintf("count %d", op.To)
				if op.Keep {
					text += ", flags kept"
				}
			}
			fmt.Fprintf(&out, "    %s\n", text)
		}
	}
	if c.Laps {
		fmt.Fprintf(&out, "lap\n    count %d  -> b%[1]d\n", g.Entry)
	}
	for _, r := range c.Home.Runs {
		fmt.Fprintf(&out, "home %x to %x", g.Insts[r.First].Addr, g.Insts[r.End-1].End())
		if r.Resume >= 0 {
			fmt.Fprintf(&out, ", then b%d", g.BlockOf(r.Resume))
		}
		out.WriteString("\n")
	}
	for _, l := range c.Home.Landings {
		fmt.Fprintf(&out, "%x leads to b%d", g.Insts[l.Inst].Addr, g.BlockOf(l.Inst))
		if l.Island != 0 {
			fmt.Fprintf(&out, " by %x", l.Island)
		}
		out.WriteString("\n")
	}
	return out.String()
}
