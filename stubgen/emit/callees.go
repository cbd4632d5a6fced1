package emit

import (
	"math/bits"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Calls by pointers. In front of such a call, or jump, of a copy stands what notes its
// callee. Each row has the first one that came to the place, and how often it has; all
// others are in sets of slots, which the places of an object share. A row is its thread's
// own. So nothing here is locked, but a signal's handler may come in between, and come to
// the same place: until the call is counted the thread goes on at the beginning again
// (libdynprof/resident/signals/notes.c).

// Notes says where the callees of an object's calls by pointers are noted; displacements are
// those from the GS base.
type Notes struct {
	Number int32 // of the row's number, -1 in rows that are added to others: there is no noting in these
	Slots  int32 // of the first set
	Sets   int   // a power of two, 2 at least
}

// Note is one of them.
type Note struct {
	Word    int32 // displacement of its two words: the first callee, and the calls of that
	Pointer Pointer
}

// Pointer is where a call's callee is: in a register, or in memory.
type Pointer struct {
	Register byte        // x86.NoRegister: in memory,
	At       x86.RunAddr // unless 0 there,
	Memory   x86.Memory  // else there
}

// Sizes of what notes are in, in bytes: internal/table/layout says what is in it.
const (
	NoteWords  = 2 // words
	SlotSize   = 32
	SlotNote   = 8 // u32, the displacement of the note's words
	SlotCalls  = 16
	SlotsInSet = 8
)

// PointerOf finds where the callee of a call by a pointer, or of a jump, which stood at pc,
// is. It reports false where that is not noted: by FS or GS, by the stack pointer itself.
func PointerOf(o *stubgen.Object, in *x86.Inst, code []byte, pc uint64) (p Pointer, ok bool) {
	if in.Prefix&(x86.PrefixFS|x86.PrefixGS|x86.PrefixAddrSize|x86.PrefixOpSize) != 0 || in.Far() {
		return p, false
	}
	p.Register = x86.NoRegister
	if reg, is := in.RM(); is {
		p.Register = reg
		return p, reg != x86.RSP
	}
	if in.RIPRel() {
		p.At = o.Run(in.RIPTarget(code, pc))
		return p, true
	}
	p.Memory, ok = in.Memory(code)
	return p, ok
}

func (p *Pointer) inMemory() bool { return p.Register == x86.NoRegister }

// Bytes of what a note is made of, and the most that its two parts take; there may be a nop in
// front.
const (
	noteCompares = 9 + 6 + 9
	noteSaves    = 5 + 1 + 1 + 8 // and restores
	noteLoads    = 8
	noteLoadsAt  = 7

	NoteSize     = 1 + noteSaves + noteLoads + noteCompares
	NoteColdSize = 162
)

// Size is the bytes that Write takes.
func (n *Note) Size() int {
	switch {
	case !n.Pointer.inMemory():
		return noteCompares
	case n.Pointer.At != 0:
		return noteSaves + noteLoadsAt + noteCompares
	}
	return noteSaves + noteLoads + noteCompares
}

// Write writes what is in front of the call:
//
//	begin:  cmp   <pointer>, gs:[word]
//	        jne   cold
//	        inc   qword gs:[word+8]
//	back:
//
// or, where the pointer is in memory,
//
//	begin:  lea   rsp, [rsp-128]
//	        push  rax
//	        mov   rax, <pointer>
//	        cmp   rax, gs:[word]
//	        jne   cold
//	        inc   qword gs:[word+8]
//	        pop   rax
//	        lea   rsp, [rsp+128]
//	back:
//
// word is called with the offset of each word of the code that has the displacement of the
// note's words, or of the slots.
func (n *Note) Write(a *x86.Asm, cold x86.Label, word func(at int)) {
	reg := n.Pointer.Register
	if n.Pointer.inMemory() {
		saveRAX(a)
		n.load(a)
		reg = x86.RAX
	}
	a.CmpGSReg(n.Word, reg)
	word(a.Len() - 4)
	a.Jcc(x86.CondNE, cold)
	a.IncGS(n.Word + 8)
	word(a.Len() - 4)
	if n.Pointer.inMemory() {
		restoreRAX(a)
	}
}

// load loads a pointer, behind saveRAX.
func (n *Note) load(a *x86.Asm) {
	if n.Pointer.At != 0 {
		a.LoadRAXAt(n.Pointer.At)
		return
	}
	m := n.Pointer.Memory
	if m.Base == x86.RSP {
		m.Disp += redZone + 8
	}
	a.LoadRAX(m)
}

// golden spreads addresses: 2^32 by the golden ratio (Knuth, TAOCP 3, 6.4).
const golden = 0x9e3779b1

// WriteCold writes the rest, which notes a callee that is not the first, or the first of all:
//
//	        jmp   begin                     ; never runs, but says where it is
//	cold:   lea   rsp, [rsp-128]            ; these two unless the pointer is in memory
//	        push  rax
//	        push  rcx
//	        push  rdx
//	        mov   rax, <pointer>            ; as well
//	        cmp   dword gs:[number], -1
//	        je    done
//	        cmp   qword gs:[word], 0
//	        je    first
//	        imul  ecx, eax, golden          ; the set, by callee and note, which both
//	        add   ecx, word                 ; lie at equal distances
//	        imul  ecx, ecx, golden
//	        shr   ecx, 32-log2(sets)
//	        shl   ecx, 8
//	        add   ecx, slots
//	        mov   edx, 8
//	probe:  cmp   gs:[rcx], rax
//	        jne   other
//	        cmp   dword gs:[rcx+8], word
//	        je    hit
//	other:  cmp   qword gs:[rcx], 0
//	        je    take
//	        add   ecx, 32
//	        dec   edx
//	        jne   probe
//	        jmp   done                      ; the set is full
//	take:   mov   dword gs:[rcx+8], word
//	        mov   gs:[rcx], rax
//	hit:    inc   qword gs:[rcx+16]
//	        jmp   done
//	first:  mov   gs:[word], rax
//	        inc   qword gs:[word+8]
//	done:   pop   rdx
//	        pop   rcx
//	        pop   rax
//	        lea   rsp, [rsp+128]
//	        jmp   back
func (n *Note) WriteCold(a *x86.Asm, all *Notes, begin, cold, back x86.Label, word func(at int)) {
	first, probe, other, take, hit, done := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	a.Jmp(begin)
	a.Bind(cold)
	if !n.Pointer.inMemory() {
		saveRAX(a)
	}
	a.PushRCX()
	a.PushRDX()
	if !n.Pointer.inMemory() {
		a.MovRAX(n.Pointer.Register)
	}
	a.CmpGSByte(all.Number, -1)
	a.JccShort(x86.CondE, done)
	a.CmpGSZero(n.Word)
	word(a.Len() - 5)
	a.JccShort(x86.CondE, first)
	a.ImulEAXToECX(golden)
	a.AddECX(n.Word)
	word(a.Len() - 4)
	a.ImulECX(golden)
	a.ShrECX(byte(32 - bits.TrailingZeros(uint(all.Sets))))
	a.ShlECX(byte(bits.TrailingZeros(SlotSize * SlotsInSet)))
	a.AddECX(all.Slots)
	word(a.Len() - 4)
	a.MovEDX(SlotsInSet)
	a.Bind(probe)
	a.CmpAtRCX()
	a.JccShort(x86.CondNE, other)
	a.CmpImmAtRCX(SlotNote, n.Word)
	word(a.Len() - 4)
	a.JccShort(x86.CondE, hit)
	a.Bind(other)
	a.CmpZeroAtRCX()
	a.JccShort(x86.CondE, take)
	a.AddECX(SlotSize)
	a.DecEDX()
	a.JccShort(x86.CondNE, probe)
	a.JmpShort(done)
	a.Bind(take)
	a.MovImmAtRCX(SlotNote, n.Word)
	word(a.Len() - 4)
	a.MovAtRCX()
	a.Bind(hit)
	a.IncAtRCX(SlotCalls)
	a.JmpShort(done)
	a.Bind(first)
	a.MovGSRAX(n.Word)
	word(a.Len() - 4)
	a.IncGS(n.Word + 8)
	word(a.Len() - 4)
	a.Bind(done)
	a.PopRDX()
	a.PopRCX()
	restoreRAX(a)
	a.Jmp(back)
}
