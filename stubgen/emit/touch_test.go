package emit

import (
	"cmp"
	"encoding/binary"
	"fmt"
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
		{"8 bytes, there is pext", Touch{Marks: []Mark{by(x86.RDI, none, 1, 8, load)}, Scratch: x86.RAX, Masks: true, Granule: GranuleWord}},
	} {
		row.Granule = cmp.Or(row.Granule, GranulePage)
		code := assembled(t, func(a *x86.Asm) {
			mask := a.NewLabel()
			row.Write(a, &TouchUse{Word: 0x98, Mask: mask})
			a.Bind(mask)
		})
		if len(code) != row.Size() {
			t.Errorf("%s: %d bytes, not %d", row.name, len(code), row.Size())
		}
		fmt.Fprintf(&got, "== %s\n%s\n", row.name, fixture.Disassemble(t, code, uint64(fixture.ArenaAt)))
	}
	fixture.Compare(t, "testdata/touches.golden", got.String(), "go test -update, then look at the change")
}

// TestTouchRoom: a Touch with all marks that it has room for is no larger than TouchSize, and a
// register is left for it.
func TestTouchRoom(t *testing.T) {
	registers := []byte{x86.RCX, x86.RDX, x86.RBX, x86.RBP, x86.RSI, x86.RDI, x86.RSP, x86.RAX, x86.R8, 12, 13}
	for kind := range 3 {
		for _, touch := range []Touch{{Scratch: 15}, {Scratch: 15, Masks: true}, {Scratch: x86.NoRegister, Masks: true}, {Scratch: x86.NoRegister, KeepsFlags: true}} {
			for first := range registers {
				all := touch
				for i := 0; ; i++ {
					m := Mark{Memory: x86.Memory{Base: registers[(first+2*i)%len(registers)], Index: registers[(first+2*i+1)%len(registers)], Scale: 8, Disp: 1 << 20}, Kind: x86.OperandLoad | x86.OperandStore}
					if m.Memory.Index == x86.RSP {
						m.Memory.Index = x86.NoRegister
					}
					switch kind {
					case 1: // scales of rax are left out (x86.Operand.Linear)
						m.Memory.Segment, m.Memory.Scale = x86.SegmentFS, 1
					case 2:
						m.Memory.Addr32, m.Ahead = true, 15
					}
					if !all.HasRoom(&m) {
						break
					}
					all.Marks = append(all.Marks, m)
				}
				if len(all.Marks) < 2 || all.Size() >= TouchSize || all.Scratch == x86.NoRegister && all.victim() > x86.RDI {
					t.Errorf("%+v: %d bytes", all, all.Size())
				}
			}
		}
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
