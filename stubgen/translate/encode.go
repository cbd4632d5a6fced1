package translate

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// Copy is an encoded copy, and what leads to it.
type Copy struct {
	Len     int         // bytes
	Entry   x86.RunAddr // of the copy of the function's entry
	Patches []Patch     // of the old body, by no order
}

// Patch is bytes that an old body gets, at a link-time address.
type Patch struct {
	Addr uint64
	Code []byte
}

// Counter says what one more for a counter is.
type Counter struct {
	Shared x86.RunAddr // unless 0, where the counters of all threads are
	Row    int32       // else the displacement of the first from the GS base
}

// Size is the most bytes that the copy takes.
func (c *Code) Size(o *stubgen.Object) int {
	const count, keep = 9, 5 + 1 + 1 + 3 + 2 + 1 + 1 + 8
	n := 0
	for _, op := range c.Ops {
		in := &c.Home.Graph.Insts[op.Inst]
		switch op.Kind {
		case Count:
			n += count
			if op.Keep {
				n += keep
			}
		case Stay, Follow:
			n += jumpSize
		default:
			n += emit.MovedSize(o, &in.Inst, in.Addr)
		}
	}
	return n
}

// Encode writes the copy into dst, which will run at address at.
func (c *Code) Encode(o *stubgen.Object, dst []byte, at x86.RunAddr, counter Counter) (*Copy, error) {
	var a x86.Asm
	a.Reset(dst, at)
	g := c.Home.Graph
	labels := make([]x86.Label, len(g.Blocks))
	for k := range labels {
		labels[k] = a.NewLabel()
	}
	m := emit.NewMover(&a, o)
	for k := range g.Blocks {
		end := len(c.Ops)
		if k+1 < len(g.Blocks) {
			end = int(c.Begins[k+1])
		}
		a.Bind(labels[k])
		for _, op := range c.Ops[c.Begins[k]:end] {
			c.encode(o, &a, m, labels, op, counter)
		}
	}
	m.Finish()
	if err := a.Finish(); err != nil {
		return nil, err
	}
	copied := &Copy{Len: a.Len(), Entry: a.Place(labels[g.Entry])}
	return copied, c.lead(o, copied, &a, labels)
}

func (c *Code) encode(o *stubgen.Object, a *x86.Asm, m *emit.Mover, labels []x86.Label, op Op, counter Counter) {
	in := &c.Home.Graph.Insts[op.Inst]
	code := o.Code(in.Addr)[:in.Len]
	switch op.Kind {
	case Same, Push:
		m.Same(&in.Inst, code, in.Addr)
	case Branch:
		m.Branch(&in.Inst, code, labels[op.To])
	case Leave:
		m.Leave(&in.Inst, code, o.Run(in.To))
	case Follow:
		a.JmpTo(o.Run(in.End()))
	case Stay:
		a.JmpTo(o.Run(in.Addr))
	case Count:
		count := func() { counter.count(a, op.To) }
		if op.Keep {
			emit.KeepFlags(a, count)
		} else {
			count()
		}
	}
}

func (c Counter) count(a *x86.Asm, number int32) {
	if c.Shared != 0 {
		a.LockIncTo(c.Shared + x86.RunAddr(8*number))
	} else {
		a.IncGS(c.Row + 8*number)
	}
}

// lead makes the patches: jumps to the copies of what landings are in front of, and
// short ones to islands.
func (c *Code) lead(o *stubgen.Object, to *Copy, a *x86.Asm, labels []x86.Label) error {
	g := c.Home.Graph
	for _, l := range c.Home.Landings {
		at, copied := g.Insts[l.Inst].Addr, a.Place(labels[g.BlockOf(l.Inst)])
		if l.Island != 0 {
			const opShort = 0xeb
			to.Patches = append(to.Patches, Patch{at, []byte{opShort, byte(l.Island - at - shortSize)}})
			at = l.Island
		}
		p := Patch{at, make([]byte, jumpSize)}
		var jump x86.Asm
		jump.Reset(p.Code, o.Run(at))
		jump.JmpTo(copied)
		if err := jump.Finish(); err != nil {
			return err
		}
		to.Patches = append(to.Patches, p)
	}
	return nil
}
