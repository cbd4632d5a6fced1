package emit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestRecord compares what records an access, in all shapes, with records.golden: what is in front
// of the instruction, and what calls the slow path. Neither is larger than it may be.
func TestRecord(t *testing.T) {
	const none = x86.NoRegister
	by := func(base, index, scale byte, disp int32) []Mark {
		return []Mark{{Memory: x86.Memory{Base: base, Index: index, Scale: scale, Disp: disp}}}
	}
	var got strings.Builder
	for _, row := range []struct {
		name string
		Touch
		Operand x86.Operand
		second  bool
	}{
		{"8 bytes by a register are read, rax is dead", Touch{Marks: by(x86.RDI, none, 1, 8), Scratch: x86.RAX}, x86.Operand{Size: 8, Count: 1, Kind: x86.OperandLoad}, false},
		{"one by r12 and r9 is written, r13 is dead, it is the second operand", Touch{Marks: by(12, 9, 8, 0x12345678), Scratch: 13}, x86.Operand{Size: 1, Count: 1, Kind: x86.OperandStore}, true},
		{"16 by rip are read, and written at once", Touch{Marks: []Mark{{At: fixture.ArenaAt + 0x10000}}, Scratch: x86.RSI}, x86.Operand{Size: 16, Count: 1, Kind: x86.OperandLoad | x86.OperandStore, Flags: x86.OperandAtomic}, false},
		{"none is dead", Touch{Marks: by(x86.RCX, x86.RDX, 1, 0), Scratch: none}, x86.Operand{Size: 4, Count: 1, Kind: x86.OperandStore}, false},
		{"below the stack pointer, flags are kept", Touch{Marks: by(x86.RSP, none, 1, -8), Scratch: none, KeepsFlags: true}, x86.Operand{Size: 8, Count: 1, Kind: x86.OperandStore}, false},
		{"by rax, flags are kept", Touch{Marks: by(x86.RAX, x86.RCX, 4, 0x12345678), Scratch: none, KeepsFlags: true}, x86.Operand{Size: 64, Count: 1, Kind: x86.OperandLoad}, false},
		{"check: of two, rax is dead", Touch{Marks: append(by(x86.RBX, none, 1, 0), by(x86.RSP, none, 1, -1024)...), Scratch: x86.RAX, Check: true}, x86.Operand{}, false},
		{"check: by pext", Touch{Marks: append(by(x86.RBX, none, 1, 0), by(12, 9, 8, -1024)...), Scratch: 13, Masks: true, Check: true}, x86.Operand{}, false},
		{"check: none is dead", Touch{Marks: append(by(x86.RCX, none, 1, 0), by(x86.RSP, none, 1, -1024)...), Scratch: none, Masks: true, Check: true}, x86.Operand{}, false},
		{"check of bounds: of two, rax is dead", Touch{Marks: append(by(x86.RBX, 12, 8, 0x10), by(12, none, 1, 0x2000)...), Scratch: x86.RAX, Masks: true, Check: true, Bounds: true}, x86.Operand{}, false},
		{"check of bounds: none is dead, by the stack pointer, and by rip", Touch{Marks: append(by(x86.RSP, x86.RCX, 1, 8), Mark{At: fixture.ArenaAt + 0x10000}), Scratch: none, Check: true, Bounds: true}, x86.Operand{}, false},
	} {
		if row.Granule = GranulePage; !row.Check {
			row.Record = Record(&row.Operand, row.second)
		}
		front, size := 0, 0
		code := assembled(t, func(a *x86.Asm) {
			begin := a.NewLabel()
			use := TouchUse{Word: 0x98, Mask: a.NewLabel(), Cold: a.NewLabel(), Back: a.NewLabel()}
			a.Bind(begin)
			row.Write(a, &use)
			front = a.Len()
			if row.Check {
				a.Bind(use.Mask)
				return
			}
			row.WriteCold(a, &use, begin, fixture.ArenaAt+0x20000, fixture.ArenaAt+0x30000)
			size = a.Len() - front
		})
		if front != row.Size() || front >= TouchSize || front > row.MostSize() || size > RecordColdSize {
			t.Errorf("%s: %d bytes and %d, not %d and %d at most", row.name, front, size, row.Size(), RecordColdSize)
		}
		fmt.Fprintf(&got, "== %s\n%s\n", row.name, fixture.Disassemble(t, code, uint64(fixture.ArenaAt)))
	}
	fixture.Compare(t, "testdata/records.golden", got.String(), "go test -update, then look at the change")
}
