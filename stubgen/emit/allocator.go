package emit

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// AllocatorSize is the most room that EmitAllocator takes.
const AllocatorSize = 128

// AllocatorBody is where the function goes on in the thunk, from its beginning.
const AllocatorBody = 2*literalSize + 5 + 7 + 6

// EmitAllocator writes what a function that hands out blocks, or takes them back, jumps to
// instead of its first instructions; slow is dp_allocator of libdynprof/resident/table/allocs.S.
// Nobody is below the stack pointer there.
//
//	        .quad <slow>
//	        .quad <kind>
//	        mov   %rax, -16(%rsp)
//	        lea   <the beginning>(%rip), %rax
//	        jmp   *<the beginning>(%rip)
//	body:   <what stood in the window>
//	        jmp   <what follows>
//
// Arrivals are at AllocatorEntry. It returns the lengths of what it moved, as in Origins.
func EmitAllocator(o *stubgen.Object, f stubgen.Allocator, dst []byte, at x86.RunAddr, slow uint64) (lengths []byte, err error) {
	var a x86.Asm
	a.Reset(dst, at)
	a.Quad(slow)
	a.Quad(uint64(f.Kind))
	a.Copy([]byte{0x48, 0x89, 0x44, 0x24, 0xf0}) // mov %rax,-16(%rsp)
	a.LeaTo(x86.RAX, at)
	a.JmpMemAt(at)
	r := relocator{asm: &a, obj: o, entry: f.Window, from: f.Window, code: o.Code(f.Window)[:f.Bytes]}
	r.move()
	return r.lengths, a.Finish()
}

// AllocatorEntry is where arrivals are, from the thunk's beginning.
const AllocatorEntry = 2 * literalSize

// AddAllocator adds the record of a thunk of EmitAllocator.
func (s *Origins) AddAllocator(o *stubgen.Object, f stubgen.Allocator, at x86.RunAddr, lengths []byte) {
	start := len(s.Lengths)
	s.Lengths = append(s.Lengths, lengths...)
	s.add(at, o.Run(f.Window), AllocatorBody, flagsOf(o), start)
}
