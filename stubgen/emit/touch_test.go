package emit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestTouch compares what notes touched pages, in all shapes, with touches.golden. None is
// larger than TouchSize.
func TestTouch(t *testing.T) {
	const none = x86.NoRegister
	memory := func(base, index, scale byte, disp int32) x86.Memory {
		return x86.Memory{Base: base, Index: index, Scale: scale, Disp: disp}
	}
	var got strings.Builder
	for _, row := range []struct {
		name string
		Touch
	}{
		{"a byte by a register is read", Touch{Memory: memory(x86.RDI, none, 1, 8), Kind: x86.OperandLoad}},
		{"8 bytes by rcx and rdx are written", Touch{Memory: memory(x86.RCX, x86.RDX, 8, -4), Last: 7, Kind: x86.OperandStore}},
		{"4 bytes by an index alone are both", Touch{Memory: memory(none, 13, 4, 0x1000), Last: 3, Kind: x86.OperandLoad | x86.OperandStore}},
		{"below the stack pointer", Touch{Memory: memory(x86.RSP, none, 1, -8), Last: 7, Kind: x86.OperandStore}},
		{"relative to rip", Touch{At: fixture.ArenaAt + 0x10000, Last: 3, Kind: x86.OperandLoad}},
		{"flags are kept", Touch{Memory: memory(x86.RBP, none, 1, 0), Kind: x86.OperandLoad, KeepsFlags: true}},
		{"flags are kept, by the stack pointer and rcx", Touch{Memory: memory(x86.RSP, x86.RCX, 1, 16), Last: 1, Kind: x86.OperandStore, KeepsFlags: true}},
		{"flags are kept, by rax", Touch{Memory: memory(x86.RAX, x86.RDX, 2, 0), Last: 15, Kind: x86.OperandLoad | x86.OperandStore, KeepsFlags: true}},
		{"flags are kept, by rax twice", Touch{Memory: memory(x86.RAX, x86.RAX, 4, 0), Last: 1, Kind: x86.OperandLoad, KeepsFlags: true}},
	} {
		code := assembled(t, row.Write)
		if len(code) != row.Size() || len(code) >= TouchSize {
			t.Errorf("%s: %d bytes, not %d, less than %d", row.name, len(code), row.Size(), TouchSize)
		}
		fmt.Fprintf(&got, "== %s\n%s\n", row.name, fixture.Disassemble(t, code, uint64(fixture.ArenaAt)))
	}
	fixture.Compare(t, "testdata/touches.golden", got.String(), "go test -update, then look at the change")
}
