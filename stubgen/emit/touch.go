package emit

import "github.com/dynprof/dynprof/internal/x86"

// Pages that are read and written. In front of an instruction stands what notes them in the
// shadow: two bytes a page, at a place that is the same in all processes. The stack is used
// below the red zone, and not the thread's row: threads may share one where a sandbox forbids
// more, and a register that another thread has got would be worse than a count that is lost.
// It stores 1 whatever was there, so how often it runs, and in which thread, does not matter.

// Where the shadow is, how many bytes it has, and which of the two of a page is which. Of an
// address 47 bits count: so no address, however wild, leads out of it.
const (
	ShadowAt      = 0x7fff8000 // in reach of a displacement
	ShadowSize    = 2 << (addressBits - pageBits)
	ShadowText    = 8 << 20 // room for each of two texts behind it: what is mapped at the start and at the end
	ShadowRead    = 0
	ShadowWritten = 1

	addressBits = 47
	pageBits    = 12
)

// Touch is bytes in memory that are read or written, or both.
type Touch struct {
	Memory     x86.Memory  // the first; displacements are as in front of the instruction
	At         x86.RunAddr // unless 0 it is there
	Last       int32       // how far behind the first the last one is, less than a page
	Kind       x86.OperandKind
	KeepsFlags bool
}

// TouchSize is the most that Write takes; there may be a nop in front.
const TouchSize = 1 + 11 + 2*(4+8+4+4+10) + 13

// MostDisplacement is that of a Touch's Memory: Write adds to it.
const MostDisplacement = 1<<31 - 1<<14

// Size is the bytes that Write takes.
func (t *Touch) Size() int {
	var a x86.Asm
	var buf [TouchSize]byte
	a.Reset(buf[:], t.At) // in reach, wherever it is
	t.Write(&a)
	return a.Len()
}

// register is the one that Write has for itself: its number, below 8.
func (t *Touch) register() byte {
	for _, r := range []byte{x86.RCX, x86.RDX} {
		if t.Memory.Base != r && t.Memory.Index != r || t.At != 0 {
			return r
		}
	}
	return x86.RSI
}

// Write writes it:
//
//	lea   rsp, [rsp-128]
//	push  rcx                        ; or rdx, or rsi
//	lea   rcx, <first>
//	shl   rcx, 17
//	shr   rcx, 29
//	mov   byte [shadow+rcx*2], 1     ; or +1; both by one word
//	lea   rcx, <last>                ; unless that is the first
//	...
//	pop   rcx
//	lea   rsp, [rsp+128]
//
// or, where flags are live,
//
//	lea   rsp, [rsp-128]
//	push  rcx
//	push  rax
//	lahf
//	seto  al
//	mov   rcx, [rsp]                 ; if rax is in the address, where rcx is then
//	lea   rcx, <first>
//	...
//	add   al, 0x7f
//	sahf
//	pop   rax
//	pop   rcx
//	lea   rsp, [rsp+128]
func (t *Touch) Write(a *x86.Asm) {
	r := t.register()
	a.LeaRSP(-redZone)
	a.Push(r)
	if t.KeepsFlags {
		a.Push(x86.RAX)
		a.Lahf()
		a.SetoAL()
	}
	t.page(a, r, 0)
	if t.Last > 0 {
		t.page(a, r, t.Last)
	}
	if t.KeepsFlags {
		a.AddAL(0x7f)
		a.Sahf()
		a.Pop(x86.RAX)
	}
	a.Pop(r)
	a.LeaRSP(redZone)
}

// page notes the page of a byte.
func (t *Touch) page(a *x86.Asm, r byte, behind int32) {
	if t.At != 0 {
		a.LeaTo(r, t.At.Add(int(behind)))
	} else {
		a.Lea(r, t.memory(a, r, behind))
	}
	a.Shl(r, 64-addressBits)
	a.Shr(r, 64-addressBits+pageBits)
	switch t.Kind {
	case x86.OperandLoad:
		a.MovByteAtTwice(r, ShadowAt+ShadowRead, 1)
	case x86.OperandStore:
		a.MovByteAtTwice(r, ShadowAt+ShadowWritten, 1)
	default:
		a.MovWordAtTwice(r, ShadowAt, 1<<(8*ShadowRead)|1<<(8*ShadowWritten))
	}
}

// memory is that of a byte, with the stack pointer as it is by now, and rax where it is.
func (t *Touch) memory(a *x86.Asm, r byte, behind int32) x86.Memory {
	m := t.Memory
	m.Disp += behind
	if m.Base == x86.RSP {
		m.Disp += redZone + 8
		if t.KeepsFlags {
			m.Disp += 8
		}
	}
	if t.KeepsFlags && (m.Base == x86.RAX || m.Index == x86.RAX) {
		a.LoadTop(r)
		if m.Base == x86.RAX {
			m.Base = r
		}
		if m.Index == x86.RAX {
			m.Index = r
		}
	}
	return m
}
