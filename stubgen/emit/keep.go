package emit

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/x86"
)

// Keep is what code in place of a function must keep for the function's callers.
type Keep struct {
	Registers x86.RegSet
	Custom    bool // it has a calling convention of its own, which no compiled code has
	Align     bool // callers may have the stack pointer at a multiple of 8 only
	Stack     int  // words above the return address that the function reads; ManyWords: not known
}

// ManyWords is a Keep.Stack that is not known: the address is taken.
const ManyWords = 255

// Needed reports whether compiled code cannot simply take the function's place.
func (k *Keep) Needed() bool { return k.Custom || k.Align || !k.Registers.Empty() }

// KeepSize is the size of a keep block.
const KeepSize = 16

// What a keeper keeps besides RCX, RSI, RDI and R8 to R11
// (libdynprof/resident/stubs/keeper.S).
const (
	keepRAX = 1 << iota
	keepRDX
	keepXMM0
	keepXMM1
	keepXMM2to7
	keepXMM8to15
	keepWide
	keepStack = 8 // bits in front of the words of stack arguments

	keepNothing      = 0 // in place of a keep block
	keepStackUnknown = 1
	keepCustom       = 2
)

// what is the number that says so.
func (k *Keep) what() int32 {
	g, v := k.Registers.G, k.Registers.V
	what := int32(k.Stack) << keepStack
	for _, b := range []struct {
		bit int32
		set bool
	}{
		{keepRAX, g>>x86.RAX&1 != 0}, {keepRDX, g>>x86.RDX&1 != 0},
		{keepXMM0, v&1 != 0}, {keepXMM1, v&2 != 0}, {keepXMM2to7, v&0xfc != 0}, {keepXMM8to15, v&0xff00 != 0},
		{keepWide, v>>16 != 0 || g>>16 != 0},
	} {
		if b.set {
			what |= b.bit
		}
	}
	return what
}

// EmitKeep writes the keep block of a function, to which its calls go if they are
// redirected, into dst, which will run at address at. pointers is what the stub's
// front jumps by, at pointersAt; common is the arena's jump to the keeper
// (libdynprof/resident/stubs/keeper.S):
//
//	push  code
//	push  what
//	jmp   common
func (k *Keep) EmitKeep(dst []byte, at x86.RunAddr, pointers []byte, pointersAt, common x86.RunAddr) error {
	var a x86.Asm
	cannot := uint64(keepNothing)
	if k.Custom {
		cannot = keepCustom
	} else if k.Stack == ManyWords {
		cannot = keepStackUnknown
	}
	if cannot != keepNothing {
		binary.LittleEndian.PutUint64(pointers[pointerKeep:], cannot)
		return nil
	}
	a.Reset(dst, at)
	a.PushMemAt(pointersAt + pointerCode)
	a.PushImm(k.what())
	a.JmpTo(common)
	binary.LittleEndian.PutUint64(pointers[pointerKeep:], uint64(at))
	return a.Finish()
}
