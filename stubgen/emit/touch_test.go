package emit

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestTouch compares what notes touched pages, in all shapes, with touches.golden. None is
// larger than TouchSize.
func TestTouch(t *testing.T) {
	const none, load, store = x86.NoRegister, x86.OperandLoad, x86.OperandStore
	by := func(base, index, scale byte, disp int32, kind x86.OperandKind) Mark {
		return Mark{Memory: x86.Memory{Base: base, Index: index, Scale: scale, Disp: disp}, Kind: kind}
	}
	behind := func(m Mark, more int32) Mark {
		m.More = more
		return m
	}
	told := func(m Mark, inst int32) Mark {
		m.By = [2]int32{inst, inst + 0x10}
		return m
	}
	var got strings.Builder
	for _, row := range []struct {
		name string
		Touch
	}{
		{"a byte by a register is read, rax is dead", Touch{Marks: []Mark{by(x86.RDI, none, 1, 8, load)}, Scratch: x86.RAX}},
		{"r13 is dead, there is pext", Touch{Marks: []Mark{by(x86.RSP, none, 1, 0x1000, store), by(none, 12, 4, 0x1000, load|store)}, Scratch: 13, Masks: true}},
		{"a byte where a register points to", Touch{Marks: []Mark{by(x86.RSP, none, 1, 0, load), by(x86.R9, none, 1, 0, store)}, Scratch: x86.RSI, Masks: true}},
		{"none is dead", Touch{Marks: []Mark{by(x86.RDI, none, 1, 8, load)}, Scratch: none}},
		{"8 bytes by rcx and rdx are written, none is dead", Touch{Marks: []Mark{by(x86.RCX, x86.RDX, 8, -4, store), by(x86.RCX, x86.RDX, 8, 3, store)}, Scratch: none, Masks: true}},
		{"below the stack pointer", Touch{Marks: []Mark{by(x86.RSP, none, 1, -8, store), by(x86.RSP, none, 1, -1, store)}, Scratch: none}},
		{"relative to rip", Touch{Marks: []Mark{{At: fixture.ArenaAt + 0x10000, Kind: load}, {At: fixture.ArenaAt + 0x10003, Kind: load}}, Scratch: x86.R9}},
		{"flags are kept", Touch{Marks: []Mark{by(x86.RBP, none, 1, 0, load)}, Scratch: none, KeepsFlags: true}},
		{"flags are kept, by the stack pointer and rcx", Touch{Marks: []Mark{by(x86.RSP, x86.RCX, 1, 16, store), by(x86.RSP, x86.RCX, 1, 17, store)}, Scratch: none, KeepsFlags: true}},
		{"flags are kept, by rax", Touch{Marks: []Mark{by(x86.RAX, x86.RDX, 2, 0, load|store), by(x86.RAX, x86.RDX, 2, 15, load|store)}, Scratch: none, KeepsFlags: true}},
		{"flags are kept, by rax twice", Touch{Marks: []Mark{by(x86.RAX, x86.RAX, 4, 0, load)}, Scratch: none, KeepsFlags: true}},
		{"a line", Touch{Marks: []Mark{by(x86.RDI, none, 1, 8, load)}, Scratch: x86.RAX, Granule: GranuleLine}},
		{"8 bytes", Touch{Marks: []Mark{by(x86.RDI, none, 1, 8, load)}, Scratch: x86.RAX, Granule: GranuleWord}},
		{"it looks: 8 bytes by a register are read, 4 are written behind them", Touch{Marks: []Mark{behind(by(x86.RDI, none, 1, 8, load), 7), behind(by(x86.RDI, none, 1, 32, store), 3)}, Scratch: x86.RAX, Looks: true}},
		{"it looks, there is pext: one byte is read and written, 72 by the stack pointer are written", Touch{Marks: []Mark{by(x86.R9, none, 1, 0, load|store), behind(by(x86.RSP, none, 1, -72, store), 71)}, Scratch: 13, Masks: true, Looks: true}},
		{"it looks, none is dead, relative to rip too", Touch{Marks: []Mark{{At: fixture.ArenaAt + 0x10000, Kind: load}, behind(by(x86.RSP, none, 1, 8, load), 15)}, Scratch: none, Masks: true, Looks: true}},
		{"it looks for lines", Touch{Marks: []Mark{behind(by(12, none, 1, 0, load), 7), behind(by(x86.RDI, x86.RCX, 4, 0, store), 3), by(x86.RDI, none, 1, 64, store)}, Scratch: 15, Masks: true, Looks: true, Granule: GranuleLine}},
		{"8 bytes, there is pext", Touch{Marks: []Mark{by(x86.RDI, none, 1, 8, load)}, Scratch: x86.RAX, Masks: true, Granule: GranuleWord}},
		{"in a thread's own shadow, by r13", Touch{Marks: []Mark{by(x86.RSP, none, 1, 0x1000, store)}, Scratch: 13, Threads: true}},
		{"it tells, it looks: 8 bytes are read, 4 behind them written", Touch{Marks: []Mark{told(behind(by(x86.RDI, none, 1, 8, load), 7), 1), told(behind(by(x86.RDI, none, 1, 32, store), 3), 2), told(by(x86.RCX, none, 1, 0, load|store), 3)}, Scratch: 13, Masks: true, Looks: true, Tells: true}},
		{"it tells, flags are kept", Touch{Marks: []Mark{told(by(x86.RAX, x86.RDX, 2, 0, load|store), 1)}, Scratch: none, KeepsFlags: true, Tells: true}},
		{"it tells, by shifts", Touch{Marks: []Mark{told(by(x86.R9, none, 1, 0, store), 4)}, Scratch: x86.RAX, Tells: true}},
		{"in a thread's own shadow, it looks, none is dead", Touch{Marks: []Mark{behind(by(x86.RDI, none, 1, 8, load), 7)}, Scratch: none, Looks: true, Threads: true}},
	} {
		row.Granule = cmp.Or(row.Granule, GranulePage)
		front, cold := 0, 0
		code := assembled(t, func(a *x86.Asm) {
			begin := a.NewLabel()
			use := TouchUse{Word: 0x98, Mask: a.NewLabel(), Cold: a.NewLabel(), Back: a.NewLabel(), By: &By{Number: func(inst int32) uint32 { return 0x1000 + uint32(inst) }}}
			a.Bind(begin)
			row.Write(a, &use)
			if front = a.Len(); row.Looks {
				row.WriteColdTouch(a, &use, begin)
			}
			cold = a.Len() - front
			a.Bind(use.Mask)
		})
		if front != row.Size() || front > row.MostSize() || front >= TouchSize || cold > row.ColdTouchSize() {
			t.Errorf("%s: %d and %d bytes, not %d, and %d and %d at most", row.name, front, cold, row.Size(), row.MostSize(), row.ColdTouchSize())
		}
		fmt.Fprintf(&got, "== %s\n%s\n", row.name, fixture.Disassemble(t, code, uint64(fixture.ArenaAt)))
	}
	fixture.Compare(t, "testdata/touches.golden", got.String(), "go test -update, then look at the change")
}

// TestTouchRoom: a Touch with all marks that it has room for is no larger than TouchSize, and a
// register is left for it.
func TestTouchRoom(t *testing.T) {
	registers := []byte{x86.RCX, x86.RDX, x86.RBX, x86.RBP, x86.RSI, x86.RDI, x86.RSP, x86.RAX, x86.R8, 12, 13}
	for _, touch := range []Touch{{Scratch: 15}, {Scratch: 15, Masks: true}, {Scratch: x86.NoRegister, Masks: true}, {Scratch: x86.NoRegister, KeepsFlags: true}, {Scratch: 15, Threads: true}, {Scratch: x86.NoRegister, KeepsFlags: true, Threads: true}, {Scratch: 15, Tells: true}, {Scratch: 15, Masks: true, Tells: true}, {Scratch: x86.NoRegister, KeepsFlags: true, Tells: true}, {Scratch: 15, Looks: true, Granule: GranulePage, Tells: true}, {Scratch: x86.NoRegister, Looks: true, Granule: GranulePage, Tells: true}, {Scratch: 15, Looks: true, Granule: GranulePage, Threads: true}, {Scratch: x86.NoRegister, Looks: true, Granule: GranulePage, Threads: true}, {Scratch: 15, Looks: true, Granule: GranulePage}, {Scratch: x86.NoRegister, Looks: true, Granule: GranulePage}} {
		for n := range 3 * len(registers) {
			if (touch.Threads || touch.Tells) && touch.Looks && n >= len(registers) {
				break // it does not look for these
			}
			first, kind := n%len(registers), n/len(registers)
			all := touch
			for i := 0; ; i++ {
				m := Mark{Memory: x86.Memory{Base: registers[(first+2*i)%len(registers)], Index: registers[(first+2*i+1)%len(registers)], Scale: 8, Disp: 1 << 20}, Kind: x86.OperandLoad | x86.OperandStore}
				if m.Memory.Index == x86.RSP {
					m.Memory.Index = x86.NoRegister
				}
				if all.Tells {
					m.Kind = x86.OperandLoad // two ends of a span are of one kind; what is added is where there is room (Merge)
				}
				switch kind {
				case 1: // scales of rax are left out (x86.Operand.Linear)
					m.Memory.Segment, m.Memory.Scale = x86.SegmentFS, 1
				case 2:
					m.Memory.Addr32, m.Ahead = true, 15
				}
				if all.Looks && kind == 0 {
					m.More = 100
				}
				if !all.HasRoom(&m) {
					break
				}
				all.Marks = append(all.Marks, m)
			}
			if len(all.Marks) < 2 && !(all.Threads && all.Looks) || len(all.Marks) < 1 || all.Size() >= TouchSize || all.Scratch == x86.NoRegister && all.victim() > x86.RDI {
				t.Errorf("%+v: %d bytes", all, all.Size())
			}
			if all.Size() > all.MostSize() {
				t.Errorf("%+v: %d bytes, not %d at most", all, all.Size(), all.MostSize())
			}
		}
	}
}

// TestLooks: what a Touch looks for stands for all of its marks. Marks by random registers, with
// random values, often near the end of a granule, and memory of which something is noted, at
// random: where all that it looks for is there, everything is.
func TestLooks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	type noted struct {
		number uint64
		kind   x86.OperandKind
	}
	fine, not := 0, 0
	for range 200_000 {
		g := []Granule{GranulePage, GranuleLine, GranuleWord}[r.IntN(3)]
		touch := Touch{Granule: g, Scratch: 15, Looks: true}
		regs := map[byte]uint64{}
		for n := 1 + r.IntN(mostMarks); len(touch.Marks) < n; {
			m := Mark{Memory: x86.Memory{Base: []byte{x86.RDI, x86.RSP}[r.IntN(2)], Index: x86.NoRegister, Scale: 1, Disp: r.Int32N(300) - 150}, Kind: 1 + x86.OperandKind(r.IntN(3))}
			if m.More = r.Int32N(int32(g.MostMore()) + 1); r.IntN(3) == 0 {
				m.More = min(m.More, 7)
			}
			regs[m.Memory.Base] = uint64(r.IntN(4))<<g + 1<<20 - uint64(r.IntN(200))&^uint64(r.IntN(8))
			touch.Marks = append(touch.Marks, m)
		}
		has := map[noted]bool{}
		for n := range uint64(8) {
			for _, kind := range []x86.OperandKind{x86.OperandLoad, x86.OperandStore} {
				has[noted{1<<20>>g + n - 4, kind}] = r.IntN(8) != 0
			}
		}
		is := func(at uint64, kind x86.OperandKind) bool {
			return (kind&x86.OperandLoad == 0 || has[noted{at >> g, x86.OperandLoad}]) && (kind&x86.OperandStore == 0 || has[noted{at >> g, x86.OperandStore}])
		}
		looks := true
		for _, m := range touch.together(nil) {
			at := regs[m.Memory.Base] + uint64(int64(m.Memory.Disp))
			switch {
			case m.More == 0:
			case g == GranulePage:
				at += uint64(m.More)
				looks = looks && at&uint64(g.Bytes()-1)&^uint64(upTo(m.More)-1) != 0
			default:
				looks = looks && at&uint64(upTo(m.More)-1) == 0
			}
			looks = looks && is(at, m.Kind)
		}
		if !looks {
			not++
			continue
		}
		fine++
		for _, m := range touch.Marks {
			at := regs[m.Memory.Base] + uint64(int64(m.Memory.Disp))
			for b := range uint64(m.More) + 1 {
				if !is(at+b, m.Kind) {
					t.Fatalf("%+v with %x: byte %d of %+v is not noted", touch, regs, b, m)
				}
			}
		}
	}
	if fine < 1000 || not < 1000 {
		t.Errorf("%d were fine, %d not", fine, not)
	}
}

// TestTells: where a Touch that tells and looks does not go to the cold, it has told of just what its
// marks are of.
func TestTells(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	type told struct {
		page uint64
		kind x86.OperandKind
	}
	fine, crosses, merged := 0, 0, 0
	for range 100_000 {
		touch := Touch{Granule: GranulePage, Scratch: 15, Looks: true, Tells: true}
		regs := map[byte]uint64{}
		for n := 1 + r.IntN(mostMarks); len(touch.Marks) < n; {
			m := Mark{Memory: x86.Memory{Base: []byte{x86.RDI, x86.RSP}[r.IntN(2)], Index: x86.NoRegister, Scale: 1, Disp: r.Int32N(300) - 150}, Kind: 1 + x86.OperandKind(r.IntN(3)), More: r.Int32N(16)}
			m.By = [2]int32{int32(len(touch.Marks)), int32(len(touch.Marks))}
			regs[m.Memory.Base] = 1<<20 - uint64(r.IntN(400)) + 200
			touch.Marks = append(touch.Marks, m)
		}
		pages := func(marks []Mark, whole bool) map[told]bool {
			all := map[told]bool{}
			for _, m := range marks {
				at := regs[m.Memory.Base] + uint64(int64(m.Memory.Disp))
				for _, kind := range []x86.OperandKind{x86.OperandLoad, x86.OperandStore} {
					if m.Kind&kind == 0 {
						continue
					}
					if by := touch.Marks[m.By[kind>>1]]; by.Kind&kind == 0 || by.Memory.Base != m.Memory.Base {
						t.Fatalf("%+v: %+v has another's number", touch, m)
					}
					if all[told{(at + uint64(m.More)) >> GranulePage, kind}] = true; whole {
						all[told{at >> GranulePage, kind}] = true
					}
				}
			}
			return all
		}
		list, cold := touch.together(nil), false
		for _, m := range list {
			at := regs[m.Memory.Base] + uint64(int64(m.Memory.Disp+m.More))
			cold = cold || m.More > 0 && at&uint64(GranulePage.Bytes()-1)&^uint64(upTo(m.More)-1) == 0
		}
		if cold {
			crosses++
			continue
		}
		fine++
		merged += len(touch.Marks) - len(list)
		if got, want := pages(list, false), pages(touch.Marks, true); !maps.Equal(got, want) {
			t.Fatalf("%+v with %x: %v, not %v", touch, regs, got, want)
		}
	}
	if min(fine, crosses, merged) < 1000 {
		t.Errorf("%d were fine, %d not, %d marks were one with others", fine, crosses, merged)
	}
}

// TestMask: the bits that pext takes are those that tell granules apart.
func TestMask(t *testing.T) {
	for g, want := range map[Granule]uint64{GranulePage: 0x7ffffffff000, GranuleLine: 0x7fffffffffc0, GranuleWord: 0x7ffffffffff8} {
		code := assembled(t, (&Touch{Granule: g}).WriteMask)
		if got := binary.LittleEndian.Uint64(code); got != want || len(code) != 8 {
			t.Errorf("%d bits: %#x, not %#x", g, got, want)
		}
	}
}
