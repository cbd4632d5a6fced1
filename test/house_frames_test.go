package test

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"sort"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/x86"
)

// TestFramesOfOurs: the library's call frame information is exact at every
// instruction: what moves the stack pointer moves the frame as far. Signals strike
// anywhere, and their handlers unwind.
func TestFramesOfOurs(t *testing.T) {
	lane.Parallel(t)
	f, err := os.Open(build(t, "libdynprof.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	frames, err := elfscan.Frames(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	object, err := elf.NewFile(f)
	if err != nil {
		t.Fatal(err)
	}
	text := object.Section(".text")
	code, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	moves := 0
	for _, frame := range frames {
		if at := frame.Addr - text.Addr; at < uint64(len(code)) && frame.Size <= uint64(len(code))-at {
			moves += movesTogether(t, frame, code[at:at+frame.Size])
		}
	}
	if len(frames) < 300 || moves < 1000 {
		t.Errorf("%d frames, %d moves of the stack pointer: is this the library?", len(frames), moves)
	}
}

// movesTogether checks a function, and counts what moves its stack pointer.
func movesTogether(t *testing.T, frame elfscan.Frame, code []byte) (moves int) {
	t.Helper()
	var in x86.Inst
	padding := false // behind what does not go on
	for at := 0; at < len(code); at += int(in.Len) {
		if err := x86.Decode(code[at:], &in); err != nil {
			t.Errorf("%#x: %v", frame.Addr+uint64(at), err)
			return moves
		}
		by, known := stackMove(&in, code[at:])
		padding = padding && in.Kind == x86.Nop || in.Kind == x86.Jmp || in.Kind == x86.JmpInd || in.Kind == x86.Ret || in.Kind == x86.Trap
		before, after := depth(frame, at), depth(frame, at+int(in.Len))
		if padding || !known || before == 0 || after == 0 || at+int(in.Len) == len(code) {
			continue
		}
		if by != 0 {
			moves++
		}
		if after-before != by {
			t.Errorf("%#x: %s moves the stack pointer by %d, and the frame by %d", frame.Addr+uint64(at),
				x86.Text(code[at:at+int(in.Len)], frame.Addr+uint64(at)), -by, before-after)
		}
	}
	return moves
}

// depth is how far the caller's frame is from the stack pointer at an offset; 0 if it
// is found by something else.
func depth(frame elfscan.Frame, at int) int {
	i := sort.Search(len(frame.Rules), func(i int) bool { return frame.Rules[i].Addr > frame.Addr+uint64(at) })
	return int(frame.Rules[i-1].Depth)
}

// stackMove is by how much an instruction lowers the stack pointer; known is false if
// that cannot be told.
func stackMove(in *x86.Inst, code []byte) (by int, known bool) {
	const word = 8
	if in.Map != x86.MapLegacy || in.Kind != x86.Plain {
		return 0, true
	}
	op, operation := in.Op, in.ModRM>>3&7
	reg := operation == x86.RSP && in.Rex&x86.RexR == 0
	rm := in.HasModRM && in.ModRM&7 == x86.RSP && in.Rex&x86.RexB == 0
	direct := in.ModRM>>6 == 3
	switch {
	case op&^7 == 0x50, op == 0x68, op == 0x6a, op == 0x9c, op == 0xff && operation == 6: // push, pushf
		return word, true
	case op == 0x58|x86.RSP && in.Rex&x86.RexB == 0, op == 0xc9: // pop %rsp, leave
		return 0, false
	case op&^7 == 0x58, op == 0x9d, op == 0x8f: // pop, popf
		return -word, true
	case (op == 0x83 || op == 0x81) && rm && direct: // add, sub; and: to no known place
		sign, known := map[byte]int{0: -1, 5: 1}[operation]
		return sign * signed(code[in.ImmOff:], in.ImmSize), known
	case op == 0x8d && reg: // lea
		return -signed(code[in.DispOff:], in.DispSize), rm && code[in.ModRMOff+1] == 0x24
	case op < 0x40 || op == 0x63 || op >= 0x87 && op <= 0x8b: // with two operands
		return 0, !(reg || rm && direct)
	}
	return 0, true
}

func signed(b []byte, size uint8) int {
	switch size {
	case 1:
		return int(int8(b[0]))
	case 4:
		return int(int32(binary.LittleEndian.Uint32(b)))
	}
	return 0
}
