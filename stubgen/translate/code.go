package translate

import (
	"fmt"
	"strings"

	"github.com/dynprof/dynprof/internal/spantree"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Code is the copy of a unit before it is encoded: what passes put counters into, and
// people can read.
type Code struct {
	Home   *Home
	Ops    []Op
	Begins []int32 // by block of the graph: its first Op

	Tables []flow.Dispatch // jump tables that the copy has for itself, by Load (RebuildTables)

	// What Count adds.
	Nest     *flow.Nest
	Ways     []Way
	Counters int32    // how many there are
	Blocks   []int32  // by block: number of its counter, NoCounter if its count follows from others'
	Untold   []bool   // by loop: how often it was entered cannot be told
	Detours  []Detour // those that are not Ahead come behind all blocks, in this order
	Lands    []int32  // by block: number + 1 of the detour that old text leads to, 0: to the block
	Falls    []bool   // by block: it goes on at the next
	Trips    []Trip   // by loop; none where they are not asked for
	Touches  []emit.Touch
	Start    int32 // first word of the loop's trips that is entered where the function is, NoCounter if none is

	Slow  *Code  // the other copy, of one with guards
	Known []bool // of that: by block, whether something is checked in front of it in the other

	RoundShort bool // the jump behind the last block, to the entry, is short

	wantsTrips bool
}

// Op is an instruction of the copy, or several that belong together.
type Op struct {
	Kind  OpKind
	Inst  int32 // number of the instruction that it is of
	To    int32 // block that a Branch leads to; counter of a Count; first of the words of a Note, or of a loop's trips; number of a Touch
	Via   int32 // of a Branch: number + 1 of the detour that it takes, 0: none
	Keep  bool  // of a Count: flags are live there, and saved
	Short bool  // of a Branch: one byte says how far it leads (layOut)
	Way   bool  // of a Count: it is of the way to the next block, where Inst is
}

// OpKind is what an Op does.
type OpKind uint8

// Kinds of Ops.
const (
	Same       OpKind = iota // what the instruction does
	Branch                   // its direct jump, to the copy of a block
	Leave                    // its direct jump, out of the unit
	Follow                   // a jump to what follows it, out of the unit
	Stay                     // a jump to the instruction's old place, where it runs, and the rest of the block
	Push                     // the call, as a push of the original return address and a jump
	Count                    // one more for a counter
	Note                     // the callee of what follows
	Touch                    // pages that what follows reads or writes, and what is behind it; or a record of one of its accesses
	TripStart                // an execution of a loop begins
	TripRound                // it comes to the header
	TripEnd                  // it has ended, if there is one
	TripForget               // it is not counted, if there is one
)

// isRun reports whether what is written for it has a run of its own, or begins one.
func (k OpKind) isRun() bool { return k >= Count }

func (k OpKind) isTrip() bool { return k >= TripStart }

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
	c := &Code{Home: h, Start: NoCounter, Begins: make([]int32, len(g.Blocks)), Ops: make([]Op, 0, len(g.Insts)+1)}
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
				text = fmt.Sprintf("%s  -> b%d%s", text, op.To, by(op.Via))
			case Leave:
				text = "out: " + text
			case Follow:
				text = fmt.Sprintf("out: jmp %x", in.End())
			case Stay:
				text = fmt.Sprintf("home %x: %s", in.Addr, text)
				for i := op.Inst + 1; i < g.Blocks[k].End; i++ { // which stay, too
					next := &g.Insts[i]
					text += "; " + x86.Text(o.Code(next.Addr), next.Addr)
				}
			case Push:
				text = "push: " + text
			case Count:
				text = counts(op.To, op.Keep)
			case Note:
				text = fmt.Sprintf("note %d", op.To)
			case Touch:
				text = touchText(&c.Touches[op.To])
			case TripStart, TripRound, TripEnd, TripForget:
				text = fmt.Sprintf("trip %d %s", op.To, [...]string{"starts", "goes round", "ends", "is forgotten"}[op.Kind-TripStart])
			}
			fmt.Fprintf(&out, "    %s\n", text)
		}
	}
	if c.Slow != nil {
		fmt.Fprintf(&out, "slow:\n%s", c.Slow.Text(o))
		return out.String()
	}
	for i, d := range c.Detours {
		fmt.Fprintf(&out, "d%d\n    %s  -> b%d\n", i, d.text(), d.To)
	}
	for i := range c.Trips {
		fmt.Fprintf(&out, "loop %d at b%d: %s\n", i, c.Nest.Loops[i].Header, c.Trips[i].text())
	}
	if c.Start != NoCounter {
		fmt.Fprintf(&out, "entry: trip %d starts\n", c.Start)
	}
	for _, w := range c.Ways {
		fmt.Fprintf(&out, "way %s\n", w.text())
	}
	for _, t := range c.Tables {
		fmt.Fprintf(&out, "table %x, read at %x: %d entries\n", t.Table, g.Insts[t.Load].Addr, len(t.Targets))
	}
	for _, r := range c.Home.Runs {
		fmt.Fprintf(&out, "home %x to %x", g.Insts[r.First].Addr, g.Insts[r.End-1].End())
		if r.Resume >= 0 {
			fmt.Fprintf(&out, ", then b%d", g.BlockOf(r.Resume))
		}
		out.WriteString("\n")
	}
	for _, l := range c.Home.Landings {
		k := g.BlockOf(l.Inst)
		fmt.Fprintf(&out, "%x leads to b%d", g.Insts[l.Inst].Addr, k)
		if c.Lands != nil {
			out.WriteString(by(c.Lands[k]))
		}
		if l.Island != 0 {
			fmt.Fprintf(&out, " by %x", l.Island)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// by is the detour with that number + 1.
func by(detour int32) string {
	if detour == 0 {
		return ""
	}
	return fmt.Sprintf(" by d%d", detour-1)
}

func counts(counter int32, keep bool) string {
	text := fmt.Sprintf("count %d", counter)
	if keep {
		text += ", flags kept"
	}
	return text
}

func touchText(t *emit.Touch) string {
	text := "touch"
	switch {
	case t.Record != 0:
		text = "record"
	case t.Check:
		text = "check"
	}
	for i := range t.Marks {
		m := &t.Marks[i]
		where := fmt.Sprintf("%x", uint64(m.At))
		if m.At == 0 {
			where = fmt.Sprintf("%#x(%s,%s,%d)", m.Memory.Disp, registerName(m.Memory.Base), registerName(m.Memory.Index), m.Memory.Scale)
		}
		if m.More != 0 {
			where += fmt.Sprintf(" and %d behind", m.More)
		}
		text += fmt.Sprintf(" %s: %s,", where, [...]string{"from here", "read", "written", "read and written"}[m.Kind])
	}
	for i := range t.Forms {
		f := &t.Forms[i]
		text += fmt.Sprintf(" %#x(%s,%s,%d), way %d: %s,", f.Disp, registerName(f.Base), registerName(f.Index), f.Scale, f.Way, [...]string{"", "read", "written", "read and written"}[f.Kind&(x86.OperandLoad|x86.OperandStore)])
	}
	text += " by " + registerName(t.Scratch)
	if t.Scratch == x86.NoRegister {
		text += "one on the stack"
	}
	if t.KeepsFlags {
		text += ", flags kept"
	}
	if t.Looks {
		text += ", looks"
	}
	return text
}

func registerName(n byte) string {
	if n == x86.NoRegister {
		return ""
	}
	return fmt.Sprintf("r%d", n)
}

func (d *Detour) text() string {
	var text []string
	if d.Start != NoCounter {
		text = append(text, fmt.Sprintf("trip %d starts", d.Start))
	}
	if d.Counter != NoCounter {
		text = append(text, counts(d.Counter, d.Keep))
	}
	return strings.Join(text, ", ")
}

func (t *Trip) text() string {
	if t.Words == NoCounter {
		return "trips are not counted: " + t.Why.String()
	}
	return fmt.Sprintf("trip %d", t.Words)
}

func (w *Way) text() string {
	end := func(b int32) string {
		if b == spantree.Outside {
			return "outside"
		}
		return fmt.Sprintf("b%d", b)
	}
	text := end(w.From) + " to " + end(w.To)
	if w.Back {
		text += ", back"
	}
	switch {
	case w.Calls:
		text += ": calls"
	case w.Counter != NoCounter:
		text += fmt.Sprintf(": count %d", w.Counter)
	}
	return text
}
