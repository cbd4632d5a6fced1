package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Text is the graph for people: a line for each block, with how control comes to it, and
// where it goes from there, then its instructions. l5d2 in front of a block is: the
// header of loop 5, two deep; a bar stands for each loop that a block is in.
func (g *Graph) Text(o *stubgen.Object) string {
	var out strings.Builder
	nest := g.Loops()
	fmt.Fprintf(&out, "%d blocks, %d instructions, %d loops", len(g.Blocks), len(g.Insts), len(nest.Loops))
	if !nest.Whole {
		out.WriteString(", and circles with several entries")
	}
	out.WriteString("\n")
	for _, t := range g.Tables {
		fmt.Fprintf(&out, "table at %x: %d entries\n", t.Addr, len(t.Targets))
	}
	for k := range g.Blocks {
		b := &g.Blocks[k]
		fmt.Fprintf(&out, "b%d%s%s\n", k, loopMark(nest.Loops, int32(k)), ways(b))
		for i := b.First; i < b.End; i++ {
			in := &g.Insts[i]
			fmt.Fprintf(&out, "    %x  %s\n", in.Addr, x86.Text(o.Code(in.Addr), in.Addr))
		}
	}
	return out.String()
}

// ways says how control comes to a block from outside, and where it goes.
func ways(b *Block) string {
	text := ""
	if b.Entered != 0 {
		text += "  from " + b.Entered.String()
	}
	for _, e := range b.Succs {
		text += fmt.Sprintf("  %s b%d", e.Kind, e.To)
	}
	if b.Leaves != 0 {
		text += "  out by " + b.Leaves.String()
	}
	return text
}

func loopMark(loops []Loop, block int32) string {
	text := ""
	for i, l := range loops {
		if _, in := slices.BinarySearch(l.Blocks, block); in {
			text += "|"
		}
		if l.Header == block {
			text += fmt.Sprintf("l%dd%d", i, l.Depth)
		}
	}
	if text != "" {
		text = " " + text
	}
	return text
}
