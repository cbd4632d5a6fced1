package translate

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestTouchesExact goes through functions of real programs on random ways, with registers that
// have random values wherever one is written: each granule that an instruction touches is noted by
// then, since a call or a round of a loop; and each that is noted is touched in the same block. Where it is told
// which instruction did so, it is one of the block that does the same with that granule, or with one beside it.
func TestTouchesExact(t *testing.T) {
	for _, path := range append(lane.Some([]string{"/usr/bin/lua5.4", "/usr/lib/x86_64-linux-gnu/liblzma.so.5.4.1", "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6", "/usr/bin/perl"}, 0, 1), fixture.Link(t, "../flow/testdata/flow.s"), fixture.Link(t, "testdata/forms.s")) {
		if _, err := os.Stat(path); err != nil {
			t.Logf("not looked at: %v", err)
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			o, p := load(t, path)
			walks, accesses, large, based, short := 0, 0, 0, 0, 0
			for i := range p.Units() {
				c := lowered(o, p, i)
				if c == nil {
					continue
				}
				g := c.Home.Graph
				c.Count(true)
				c.NoteCallees(o, c.Counters)
				bare := c.Ops
				begins := c.Begins
				for k, granule := range lane.Some([]emit.Granule{emit.GranulePage, emit.GranuleLine, emit.GranuleWord, emit.GranulePage, emit.GranulePage}, i%5) {
					c.Ops, c.Begins, c.Touches = slices.Clone(bare), begins, nil
					how := Touching{Row: i%3 != 0, Masks: i%2 == 0, Granule: granule, Bases: true}
					switch {
					case k == 4 || granule == emit.GranulePage && i%5 == 1:
						how.Tells = true
					case k == 3 || granule == emit.GranulePage && i%5 == 0:
						how.Row, how.Masks, how.Threads = true, false, true
					}
					c.NoteTouches(o, how)
					for n := range 4 {
						w := walk{t: t, how: how, code: c, obj: o, granule: granule, rand: rand.New(rand.NewPCG(uint64(i), uint64(n)))}
						w.from(w.rand.IntN(len(g.Blocks)), n == 0)
						walks, accesses, large, based, short = walks+1, accesses+w.accesses, large+w.large, based+w.based, short+w.short
					}
					if t.Failed() {
						t.Fatalf("%s, %d bytes:\n%s", o.Functions[g.Unit.Function].Name, granule.Bytes(), c.Text(o))
					}
				}
			}
			t.Logf("%d ways, %d accesses, %d of more than a granule, %d by FS or GS, %d of 32-bit addresses", walks, accesses, large, based, short)
			if accesses == 0 {
				t.Error("nothing was looked at")
			}
		})
	}
}

// TestTouchesAgain: a copy that is made once more, from where its counters are, is the same.
func TestTouchesAgain(t *testing.T) {
	o, p := load(t, fixture.Link(t, "../flow/testdata/flow.s"))
	seen := 0
	for i := range p.Units() {
		first, again := lowered(o, p, i), lowered(o, p, i)
		if first == nil {
			continue
		}
		first.Count(true)
		again.CountAs(func(b int) int32 { return first.Blocks[b] }, func(w int) int32 { return first.Ways[w].Counter }, NoCounter)
		for _, c := range []*Code{first, again} {
			c.NoteTouches(o, Touching{Row: true, Masks: true, Granule: emit.GranuleLine})
		}
		if !slices.Equal(again.Ops, first.Ops) || !slices.Equal(again.Begins, first.Begins) || !reflect.DeepEqual(again.Touches, first.Touches) {
			t.Errorf("%s\nand at first\n%s", again.Text(o), first.Text(o))
		}
		seen += len(first.Touches)
	}
	if seen == 0 {
		t.Error("nothing is touched")
	}
}

// walk is a way through a function.
type walk struct {
	t        *testing.T
	code     *Code
	obj      *stubgen.Object
	rand     *rand.Rand
	regs     [x86.RIP]uint64
	bases    [3]uint64 // by segment
	how      Touching
	granule  emit.Granule
	noted    map[mark]bool // since a time
	by       map[doer]bool // of a block
	accesses int
	large    int // those of more than a granule,
	based    int // by FS or GS,
	short    int // and of 32-bit addresses
}

// doer is who does something with a granule.
type doer struct {
	mark
	inst int32
}

// mark is a granule, and what is done with it.
type mark struct {
	number uint64
	kind   x86.OperandKind
}

// value is an address, often near the end of a granule.
func (w *walk) value() uint64 {
	size := w.granule.Bytes()
	at := w.rand.Uint64() % (1 << 47) >> w.granule << w.granule
	switch w.rand.IntN(3) {
	case 0:
		return at + uint64(w.rand.IntN(16))
	case 1:
		return at + uint64(size) - uint64(w.rand.IntN(160))
	}
	return at + uint64(w.rand.Int64N(size))
}

func (w *walk) from(k int, entry bool) {
	const longest = 60
	g := w.code.Home.Graph
	if entry {
		k = g.Entry
	}
	for r := range w.regs {
		w.regs[r] = w.value()
	}
	w.newBases()
	w.noted = map[mark]bool{}
	if have := knownAt(w.code, w.obj, w.how, k); len(have) > 0 {
		return // what leads there has noted something
	}
	order := w.code.Nest.Order()
	for at := int32(k); ; {
		w.block(at)
		succs := g.Blocks[at].Succs
		if len(succs) == 0 || w.rand.IntN(longest) == 0 {
			return
		}
		e := succs[w.rand.IntN(len(succs))]
		if slices.Index(order, e.To) <= slices.Index(order, at) { // another time
			w.noted = map[mark]bool{}
		}
		if e.Kind == flow.Return || e.Kind == flow.Unwind {
			w.noted = map[mark]bool{}
			w.newBases()
			for r := range w.regs {
				w.regs[r] = w.value()
			}
		}
		at = e.To
	}
}

// newBases is for what may have changed them.
func (w *walk) newBases() {
	w.bases = [...]uint64{x86.SegmentFS: w.value(), x86.SegmentGS: w.value()}
}

func (w *walk) block(k int32) {
	touched, now := map[mark]bool{}, map[mark]bool{}
	w.by = map[doer]bool{}
	told := map[doer]bool{}
	var forms []*emit.Touch
	for _, op := range w.code.ops(int(k)) {
		switch {
		case op.Kind == Touch && w.code.Touches[op.To].Forms != nil:
			forms = append(forms, &w.code.Touches[op.To])
		case op.Kind == Touch:
			for _, m := range w.code.Touches[op.To].Marks {
				at := uint64(m.At)
				if at == 0 {
					at = w.address(m.Memory, int64(m.Memory.Disp)) + uint64(m.Ahead)
				}
				for _, at := range []uint64{at, at + uint64(m.More)} {
					for _, kind := range []x86.OperandKind{x86.OperandLoad, x86.OperandStore} {
						if m.Kind&kind != 0 {
							one := mark{at >> w.granule, kind}
							w.noted[one], now[one] = true, true
							if w.how.Tells {
								told[doer{one, m.By[kind>>1]}] = true
							}
						}
					}
				}
			}
		case op.Kind.runsHere():
			formsGo(w.t, w.obj, &w.how, &w.code.Home.Graph.Insts[op.Inst], forms)
			forms = nil
			w.instruction(op.Inst, touched)
		}
	}
	for m := range now {
		if !touched[m] {
			w.t.Errorf("b%d: %x is noted, and not touched", k, m.number<<w.granule)
		}
	}
	for b := range told {
		before, behind := b, b
		before.number--
		behind.number++
		if !w.by[b] && !w.by[before] && !w.by[behind] {
			w.t.Errorf("b%d: %x is said to be touched by %x", k, b.number<<w.granule, w.code.Home.Graph.Insts[b.inst].Addr)
		}
	}
}

func (w *walk) address(m x86.Memory, disp int64) uint64 {
	at := uint64(disp)
	if m.Base != x86.NoRegister {
		at += w.regs[m.Base]
	}
	if m.Index != x86.NoRegister {
		at += w.regs[m.Index] * uint64(m.Scale)
	}
	if m.Addr32 {
		at &= 1<<32 - 1
	}
	return at + w.bases[m.Segment]
}

func (w *walk) instruction(inst int32, touched map[mark]bool) {
	in := &w.code.Home.Graph.Insts[inst]
	code := w.obj.Code(in.Addr)[:in.Len]
	var all [x86.MaxOperands]x86.Operand
	operands := all[:in.Operands(code, &all)]
	for i := range operands {
		p := &operands[i]
		n := uint64(p.Size) * uint64(p.Count)
		if !w.how.notes(p) || n > mostTouched {
			continue
		}
		at := uint64(w.obj.Run(in.End() + uint64(p.Disp)))
		if p.Base != x86.RIP {
			at = w.address(classOf(p), p.Disp)
		}
		if p.Segment != x86.SegmentNone {
			w.based++
		} else if p.Flags&x86.OperandAddr32 != 0 {
			w.short++
		}
		for _, kind := range []x86.OperandKind{x86.OperandLoad, x86.OperandStore} {
			if p.Kind&kind == 0 {
				continue
			}
			if w.accesses++; n > uint64(w.granule.Bytes()) {
				w.large++
			}
			for b := at; b != at+n; b++ {
				m := mark{b >> w.granule, kind}
				w.by[doer{m, inst}] = true
				if touched[m] = true; !w.noted[m] {
					w.t.Errorf("%x: %x is touched, and not noted", in.Addr, b)
				}
			}
		}
	}
	written := in.Effects(code).Written.G
	by, known := movesStack(in, code, operands)
	if w.regs[x86.RSP] += uint64(int64(by)); !known {
		written |= 1 << x86.RSP
	}
	if setsBases(in) {
		w.newBases()
	}
	for r := range w.regs {
		if written>>r&1 != 0 {
			w.regs[r] = w.value()
		}
	}
}

// knownAt is what is noted where a block begins.
func knownAt(c *Code, o *stubgen.Object, how Touching, k int) []known {
	again := Lower(c.Home)
	again.Nest = c.Nest
	a := asked{nest: c.Nest, dead: make([]uint32, len(c.Home.Graph.Insts)), live: make([]x86.FlagSet, len(c.Home.Graph.Insts))}
	t := toucher{asked: &a, code: again, obj: o, how: how, most: how.Granule.Bytes()}
	t.blocks()
	return t.have[k]
}
