package x86

import "math/bits"

// One method for each instruction form. The comment is the instruction as
// objdump prints it; encode_test.go assembles each and reads it back with
// objdump. Encodings: Intel SDM volume 2, chapter 2 (formats) and the page of
// each instruction.

const rexW = 0x48

// cmpOf is what group 1 has for cmp (SDM volume 2, table A-6).
const cmpOf = 7

// Cond is a condition code: the low nibble of jcc.
type Cond byte

// Conditions, SDM volume 1 appendix B.
const (
	CondB  Cond = 0x2
	CondE  Cond = 0x4
	CondNE Cond = 0x5
	CondBE Cond = 0x6
	CondA  Cond = 0x7
	CondS  Cond = 0x8
	CondGE Cond = 0xd
)

// IncGS is `incq %gs:disp`. It leaves CF as it was, writes the other status
// flags, and is one instruction, so that a signal cannot come between its load
// and its store.
func (a *Asm) IncGS(disp int32) {
	a.Raw(0x65, 0x48, 0xff, 0x04, 0x25)
	a.imm32(disp)
}

// CmpGSImm is `cmpq $imm,%gs:disp`, imm sign-extended to 64 bits.
func (a *Asm) CmpGSImm(disp, imm int32) {
	a.Raw(0x65, 0x48, 0x81, 0x3c, 0x25)
	a.imm32(disp)
	a.imm32(imm)
}

// CmpGSReg is `cmp %gs:disp,reg`.
func (a *Asm) CmpGSReg(disp int32, reg byte) { a.gs(0x3b, disp, reg) }

// CmpGSZero is `cmpq $0,%gs:disp`.
func (a *Asm) CmpGSZero(disp int32) {
	a.Raw(0x65, 0x48, 0x83, 0x3c, 0x25)
	a.imm32(disp)
	a.Raw(0)
}

// CmpGSByte is `cmpl $imm,%gs:disp`, imm sign-extended to 32 bits.
func (a *Asm) CmpGSByte(disp int32, imm int8) {
	a.Raw(0x65, 0x83, 0x3c, 0x25)
	a.imm32(disp)
	a.Raw(byte(imm))
}

// MovGSReg is `mov reg,%gs:disp`.
func (a *Asm) MovGSReg(disp int32, reg byte) { a.gs(0x89, disp, reg) }

// LoadGSReg is `mov %gs:disp,reg`.
func (a *Asm) LoadGSReg(disp int32, reg byte) { a.gs(0x8b, disp, reg) }

// LoadGSByte is `mov %gs:disp,reg8`: the lowest byte of a register.
func (a *Asm) LoadGSByte(disp int32, reg byte) {
	const rex = 0x40 // else it would be the second one of some
	a.Raw(0x65, rex|reg>>3<<2, 0x8a, reg&7<<3|hasSIB, 0x25)
	a.imm32(disp)
}

// gs is an instruction with 64 bits whose operands are a register and a word by GS.
func (a *Asm) gs(op byte, disp int32, reg byte) {
	a.Raw(0x65, rexW|reg>>3<<2, op, reg&7<<3|hasSIB, 0x25)
	a.imm32(disp)
}

// MovGSRAX is `mov %rax,%gs:disp`.
func (a *Asm) MovGSRAX(disp int32) {
	a.Raw(0x65, 0x48, 0x89, 0x04, 0x25)
	a.imm32(disp)
}

// MovGSRSP is `mov %rsp,%gs:disp`.
func (a *Asm) MovGSRSP(disp int32) {
	a.Raw(0x65, 0x48, 0x89, 0x24, 0x25)
	a.imm32(disp)
}

// MovGSImm is `movq $imm,%gs:disp`, imm sign-extended to 64 bits.
func (a *Asm) MovGSImm(disp, imm int32) {
	a.Raw(0x65, 0x48, 0xc7, 0x04, 0x25)
	a.imm32(disp)
	a.imm32(imm)
}

// LoadGSRAX is `mov %gs:disp,%rax`.
func (a *Asm) LoadGSRAX(disp int32) {
	a.Raw(0x65, 0x48, 0x8b, 0x04, 0x25)
	a.imm32(disp)
}

// LoadGSRCX is `mov %gs:disp,%rcx`.
func (a *Asm) LoadGSRCX(disp int32) {
	a.Raw(0x65, 0x48, 0x8b, 0x0c, 0x25)
	a.imm32(disp)
}

// CmpxchgGSRCX is `cmpxchg %rcx,%gs:disp`: if the word is RAX it becomes RCX, else RAX becomes
// the word. It is one instruction, so that a signal cannot come in between.
func (a *Asm) CmpxchgGSRCX(disp int32) {
	a.Raw(0x65, 0x48, 0x0f, 0xb1, 0x0c, 0x25)
	a.imm32(disp)
}

// IncGSRCX8 is `incq %gs:disp(,%rcx,8)`.
func (a *Asm) IncGSRCX8(disp int32) {
	a.Raw(0x65, 0x48, 0xff, 0x04, 0xcd)
	a.imm32(disp)
}

// LockIncTo is `lock incq target(%rip)`: as IncGS, and no other thread comes
// between load and store either.
func (a *Asm) LockIncTo(target RunAddr) {
	a.Raw(0xf0, 0x48, 0xff, 0x05)
	a.rel32To(target, 0)
}

// CmpToImm is `cmpq $imm,target(%rip)`, imm sign-extended to 64 bits.
func (a *Asm) CmpToImm(target RunAddr, imm int32) {
	a.Raw(0x48, 0x81, 0x3d)
	a.rel32To(target, 4)
	a.imm32(imm)
}

// JccTo is `jcc target`, always the 6-byte form.
func (a *Asm) JccTo(c Cond, target RunAddr) {
	a.Raw(0x0f, 0x80|byte(c))
	a.rel32To(target, 0)
}

// Jcc is `jcc label`, 6 bytes.
func (a *Asm) Jcc(c Cond, l Label) {
	a.Raw(0x0f, 0x80|byte(c))
	a.relLabel(l, 4)
}

// JccShort is `jcc label`, 2 bytes.
func (a *Asm) JccShort(c Cond, l Label) {
	a.Raw(0x70 | byte(c))
	a.relLabel(l, 1)
}

// JrcxzShort is `jrcxz label`, 2 bytes.
func (a *Asm) JrcxzShort(l Label) {
	a.Raw(0xe3)
	a.relLabel(l, 1)
}

// JmpTo is `jmp target`, 5 bytes.
func (a *Asm) JmpTo(target RunAddr) {
	a.Raw(0xe9)
	a.rel32To(target, 0)
}

// Jmp is `jmp label`, 5 bytes.
func (a *Asm) Jmp(l Label) {
	a.Raw(0xe9)
	a.relLabel(l, 4)
}

// JmpShort is `jmp label`, 2 bytes.
func (a *Asm) JmpShort(l Label) {
	a.Raw(0xeb)
	a.relLabel(l, 1)
}

// CallTo is `call target`.
func (a *Asm) CallTo(target RunAddr) {
	a.Raw(0xe8)
	a.rel32To(target, 0)
}

// Call is `call label`.
func (a *Asm) Call(l Label) {
	a.Raw(0xe8)
	a.relLabel(l, 4)
}

// Nop encodes nop.
func (a *Asm) Nop() { a.Raw(0x90) }

// LongNop is a nop of n bytes, 1 to 8.
func (a *Asm) LongNop(n int) {
	const longest = 8
	nops := [longest][]byte{
		{0x90}, {0x66, 0x90}, {0x0f, 0x1f, 0x00}, {0x0f, 0x1f, 0x40, 0}, {0x0f, 0x1f, 0x44, 0, 0},
		{0x66, 0x0f, 0x1f, 0x44, 0, 0}, {0x0f, 0x1f, 0x80, 0, 0, 0, 0}, {0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},
	}
	a.Copy(nops[n-1])
}

// Int3 is `int3`.
func (a *Asm) Int3() { a.Raw(0xcc) }

// PushMem is `push label(%rip)`: pushes the quad at the label.
func (a *Asm) PushMem(l Label) {
	a.Raw(0xff, 0x35)
	a.relLabel(l, 4)
}

// PushMemAt is `push target(%rip)`: pushes the quad at the address target.
func (a *Asm) PushMemAt(target RunAddr) {
	a.Raw(0xff, 0x35)
	a.rel32To(target, 0)
}

// JmpMem is `jmp *label(%rip)`: goes where the quad at the label says.
func (a *Asm) JmpMem(l Label) {
	a.Raw(0xff, 0x25)
	a.relLabel(l, 4)
}

// JmpMemAt is `jmp *target(%rip)`: goes where the quad at the address target says.
func (a *Asm) JmpMemAt(target RunAddr) {
	a.Raw(0xff, 0x25)
	a.rel32To(target, 0)
}

// LockDecAt is `lock decq target(%rip)`. Its ZF says whether this very
// instruction made the quad zero, whatever other threads do.
func (a *Asm) LockDecAt(target RunAddr) {
	a.Raw(0xf0, 0x48, 0xff, 0x0d)
	a.rel32To(target, 0)
}

// PushImm is `push $imm`, sign-extended to 64 bits.
func (a *Asm) PushImm(imm int32) {
	a.Raw(0x68)
	a.imm32(imm)
}

// LeaRSP is `lea disp(%rsp),%rsp`: moves the stack pointer and no flag.
func (a *Asm) LeaRSP(disp int32) {
	if disp == int32(int8(disp)) {
		a.Raw(0x48, 0x8d, 0x64, 0x24, byte(disp))
		return
	}
	a.Raw(0x48, 0x8d, 0xa4, 0x24)
	a.imm32(disp)
}

// LeaRAXAboveRSP is `lea disp(%rsp),%rax`, always with 32 bits.
func (a *Asm) LeaRAXAboveRSP(disp int32) {
	a.Raw(0x48, 0x8d, 0x84, 0x24)
	a.imm32(disp)
}

// LeaRCX is `lea label(%rip),%rcx`.
func (a *Asm) LeaRCX(l Label) {
	a.Raw(0x48, 0x8d, 0x0d)
	a.relLabel(l, 4)
}

// LeaRCXTo is `lea target(%rip),%rcx`.
func (a *Asm) LeaRCXTo(target RunAddr) {
	a.Raw(0x48, 0x8d, 0x0d)
	a.rel32To(target, 0)
}

// Lea is `lea m,reg`, with the shortest displacement.
func (a *Asm) Lea(reg byte, m Memory) {
	if m.Base == NoRegister || int32(int8(m.Disp)) != m.Disp {
		a.memory(0x8d, reg, m)
		return
	}
	const byteDisp = 0x40
	index, rm := byte(RSP), m.Base&7
	if m.Index != NoRegister {
		index = m.Index
	}
	if m.Index != NoRegister || rm == RSP {
		rm = hasSIB
	}
	a.Raw(rexW|reg>>3<<2|index>>3<<1|m.Base>>3, 0x8d, byteDisp|reg&7<<3|rm)
	if rm == hasSIB {
		a.Raw(byte(bits.TrailingZeros8(m.Scale))<<6 | index&7<<3 | m.Base&7)
	}
	a.Raw(byte(m.Disp))
}

// Lea32 is `lea m,reg`, of which 32 bits count.
func (a *Asm) Lea32(reg byte, m Memory) { a.memoryOf(0, 0x8d, reg, m) }

// CmpZeroAbsolute is `cmpq $0,addr`.
func (a *Asm) CmpZeroAbsolute(addr int32) {
	a.Raw(rexW, 0x83, 0x3c, 0x25)
	a.imm32(addr)
	a.Raw(0)
}

// Base is `rdfsbase reg`, or `rdgsbase reg`.
func (a *Asm) Base(reg byte, s Segment) {
	const fs, gs = 0xc0, 0xc8
	a.Raw(0xf3, rexW|reg>>3, 0x0f, 0xae, [...]byte{SegmentFS: fs, SegmentGS: gs}[s]|reg&7)
}

// AddTop is `add (%rsp),reg`.
func (a *Asm) AddTop(reg byte) { a.Raw(rexW|reg>>3<<2, 0x03, 0x04|reg&7<<3, 0x24) }

// memory is an instruction with 64 bits whose operands are a register and memory.
func (a *Asm) memory(op, reg byte, m Memory) { a.memoryOf(rexW, op, reg, m) }

func (a *Asm) memoryOf(wide, op, reg byte, m Memory) {
	rex, mod, index, base := wide|reg>>3<<2, byte(0x80), byte(RSP), m.Base
	if base == NoRegister {
		mod, base = 0, noBase
	}
	if m.Index != NoRegister {
		index = m.Index
	}
	scale := byte(bits.TrailingZeros8(m.Scale))
	a.Raw(0x40|rex|index>>3<<1|base>>3, op, mod|reg&7<<3|hasSIB, scale<<6|index&7<<3|base&7)
	a.imm32(m.Disp)
}

// LeaTo is `lea target(%rip),reg`.
func (a *Asm) LeaTo(reg byte, target RunAddr) {
	a.Raw(rexW|reg>>3<<2, 0x8d, 0x05|reg&7<<3)
	a.rel32To(target, 0)
}

// PushRAX is `push %rax`.
func (a *Asm) PushRAX() { a.Raw(0x50) }

// PopRAX is `pop %rax`.
func (a *Asm) PopRAX() { a.Raw(0x58) }

// PushRCX is `push %rcx`.
func (a *Asm) PushRCX() { a.Raw(0x51) }

// PopRCX is `pop %rcx`.
func (a *Asm) PopRCX() { a.Raw(0x59) }

// PushRDX is `push %rdx`.
func (a *Asm) PushRDX() { a.Raw(0x52) }

// PopRDX is `pop %rdx`.
func (a *Asm) PopRDX() { a.Raw(0x5a) }

// Push is `push reg`, of a register below r8.
func (a *Asm) Push(reg byte) { a.Raw(0x50 | reg) }

// Pop is `pop reg`, of a register below r8.
func (a *Asm) Pop(reg byte) { a.Raw(0x58 | reg) }

// LoadTop is `mov (%rsp),reg`, of a register below r8.
func (a *Asm) LoadTop(reg byte) { a.Raw(0x48, 0x8b, 0x04|reg<<3, 0x24) }

// Shl is `shl $n,reg`.
func (a *Asm) Shl(reg, n byte) { a.Raw(rexW|reg>>3, 0xc1, 0xe0|reg&7, n) }

// Shr is `shr $n,reg`.
func (a *Asm) Shr(reg, n byte) { a.Raw(rexW|reg>>3, 0xc1, 0xe8|reg&7, n) }

// Rol is `rol $n,reg`.
func (a *Asm) Rol(reg, n byte) { a.Raw(rexW|reg>>3, 0xc1, 0xc0|reg&7, n) }

// Pext is `pext mask(%rip),from,to`: the bits of from that the mask has, one beside the other
// (BMI2; SDM volume 2, 2.3 and the page of PEXT). It changes no flag.
func (a *Asm) Pext(to, from byte, mask Label) {
	a.Raw(0xc4, 0x62|^to>>3<<7, 0x82|^from&15<<3, 0xf5, 0x05|to&7<<3)
	a.relLabel(mask, 4)
}

// MovByteAtTwice is `movb $imm,disp(reg,reg,1)`.
func (a *Asm) MovByteAtTwice(reg byte, disp int32, imm byte) {
	a.atTwice(0xc6, 0, reg)
	a.imm32(disp)
	a.Raw(imm)
}

// CmpByteAtTwice is `cmpb $imm,disp(reg,reg,1)`.
func (a *Asm) CmpByteAtTwice(reg byte, disp int32, imm int8) {
	a.atTwice(0x80, cmpOf, reg)
	a.imm32(disp)
	a.Raw(byte(imm))
}

// TestImm is `test $imm,reg`, of 32 bits.
func (a *Asm) TestImm(reg byte, imm uint32) {
	const rexB = 0x41
	if reg >= R8 {
		a.Raw(rexB)
	}
	a.Raw(0xf7, 0xc0|reg&7)
	a.imm32(int32(imm))
}

// TestByteImm is `test $imm,reg`, of the lowest 8 bits.
func (a *Asm) TestByteImm(reg, imm byte) {
	const rex = 0x40
	a.Raw(rex|reg>>3, 0xf6, 0xc0|reg&7, imm)
}

// MovWordAtTwice is `movw $imm,disp(reg,reg,1)`.
func (a *Asm) MovWordAtTwice(reg byte, disp int32, imm uint16) {
	a.Raw(0x66)
	a.atTwice(0xc7, 0, reg)
	a.imm32(disp)
	a.Raw(byte(imm), byte(imm>>8))
}

// MovzxWordAtTwice is `movzwl disp(reg,reg,1),reg`.
func (a *Asm) MovzxWordAtTwice(reg byte, disp int32) {
	const rexRXB = 0x47
	if reg >= R8 {
		a.Raw(rexRXB)
	}
	a.Raw(0x0f, 0xb7, 0x84|reg&7<<3, reg&7<<3|reg&7)
	a.imm32(disp)
}

// CmpWordAtTwice is `cmpw $imm,disp(reg,reg,1)`.
func (a *Asm) CmpWordAtTwice(reg byte, disp int32, imm int8) {
	a.Raw(0x66)
	a.atTwice(0x83, cmpOf, reg)
	a.imm32(disp)
	a.Raw(byte(imm))
}

// MovDoubleAtEight is `movl $imm,disp(,reg,8)`, and says where imm is.
func (a *Asm) MovDoubleAtEight(reg byte, disp int32, imm uint32) (at int) {
	if reg > RDI {
		a.Raw(0x42)
	}
	a.Raw(0xc7, 0x04, 0xc5|reg&7<<3)
	a.imm32(disp)
	a.imm32(int32(imm))
	return a.Len() - 4
}

// CmpAbsolute is `cmp disp,reg`, of 8 bytes in the first 2 GB of memory.
func (a *Asm) CmpAbsolute(reg byte, disp int32) {
	a.Raw(rexW|reg>>3<<2, 0x3b, 0x04|reg&7<<3, 0x25)
	a.imm32(disp)
}

// StoreAboveRSP is `mov reg,disp(%rsp)`.
func (a *Asm) StoreAboveRSP(disp int8, reg byte) {
	a.Raw(rexW|reg>>3<<2, 0x89, 0x44|reg&7<<3, 0x24, byte(disp))
}

// StoreImmAtRSP is `movq $imm,(%rsp)`.
func (a *Asm) StoreImmAtRSP(imm int32) {
	a.Raw(0x48, 0xc7, 0x04, 0x24)
	a.imm32(imm)
}

// atTwice is an instruction on memory at twice a register and a displacement.
func (a *Asm) atTwice(op, of, reg byte) {
	const rexXB = 0x43
	if reg >= R8 {
		a.Raw(rexXB)
	}
	a.Raw(op, 0x84|of<<3, reg&7<<3|reg&7)
}

// MovRAX is `mov reg,%rax`.
func (a *Asm) MovRAX(reg byte) { a.Raw(rexW|reg>>3<<2, 0x89, 0xc0|reg&7<<3) }

// LoadRAX is `mov m,%rax`, with a displacement of 32 bits.
func (a *Asm) LoadRAX(m Memory) { a.memory(0x8b, RAX, m) }

// LoadRAXAt is `mov target(%rip),%rax`.
func (a *Asm) LoadRAXAt(target RunAddr) {
	a.Raw(0x48, 0x8b, 0x05)
	a.rel32To(target, 0)
}

// ImulEAXToECX is `imul $imm,%eax,%ecx`.
func (a *Asm) ImulEAXToECX(imm uint32) {
	a.Raw(0x69, 0xc8)
	a.imm32(int32(imm))
}

// ImulECX is `imul $imm,%ecx,%ecx`.
func (a *Asm) ImulECX(imm uint32) {
	a.Raw(0x69, 0xc9)
	a.imm32(int32(imm))
}

// ShrECX is `shr $n,%ecx`.
func (a *Asm) ShrECX(n byte) { a.Raw(0xc1, 0xe9, n) }

// ShlECX is `shl $n,%ecx`.
func (a *Asm) ShlECX(n byte) { a.Raw(0xc1, 0xe1, n) }

// AddECX is `add $imm,%ecx`, always with 32 bits.
func (a *Asm) AddECX(imm int32) {
	a.Raw(0x81, 0xc1)
	a.imm32(imm)
}

// MovECX is `mov $imm,%ecx`.
func (a *Asm) MovECX(imm int32) {
	a.Raw(0xb9)
	a.imm32(imm)
}

// CmpRCXRAX is `cmp %rax,%rcx`.
func (a *Asm) CmpRCXRAX() { a.Raw(0x48, 0x39, 0xc1) }

// CmpECX is `cmp $imm,%ecx`, imm sign-extended to 32 bits.
func (a *Asm) CmpECX(imm int8) { a.Raw(0x83, 0xf9, byte(imm)) }

// NotRCX is `not %rcx`.
func (a *Asm) NotRCX() { a.Raw(0x48, 0xf7, 0xd1) }

// OrRCX is `or $imm,%rcx`, imm sign-extended to 64 bits.
func (a *Asm) OrRCX(imm int8) { a.Raw(0x48, 0x83, 0xc9, byte(imm)) }

// BsrRCX is `bsr %rcx,%rcx`: the number of the highest bit that is set, of which there is one.
func (a *Asm) BsrRCX() { a.Raw(0x48, 0x0f, 0xbd, 0xc9) }

// MovEDX is `mov $imm,%edx`.
func (a *Asm) MovEDX(imm int32) {
	a.Raw(0xba)
	a.imm32(imm)
}

// DecEDX is `dec %edx`.
func (a *Asm) DecEDX() { a.Raw(0xff, 0xca) }

// CmpAtRCX is `cmp %rax,%gs:(%rcx)`.
func (a *Asm) CmpAtRCX() { a.Raw(0x65, 0x48, 0x39, 0x01) }

// CmpZeroAtRCX is `cmpq $0,%gs:(%rcx)`.
func (a *Asm) CmpZeroAtRCX() { a.Raw(0x65, 0x48, 0x83, 0x39, 0x00) }

// MovAtRCX is `mov %rax,%gs:(%rcx)`.
func (a *Asm) MovAtRCX() { a.Raw(0x65, 0x48, 0x89, 0x01) }

// CmpImmAtRCX is `cmpl $imm,%gs:disp(%rcx)`.
func (a *Asm) CmpImmAtRCX(disp int8, imm int32) {
	a.Raw(0x65, 0x81, 0x79, byte(disp))
	a.imm32(imm)
}

// MovImmAtRCX is `movl $imm,%gs:disp(%rcx)`.
func (a *Asm) MovImmAtRCX(disp int8, imm int32) {
	a.Raw(0x65, 0xc7, 0x41, byte(disp))
	a.imm32(imm)
}

// IncAtRCX is `incq %gs:disp(%rcx)`.
func (a *Asm) IncAtRCX(disp int8) { a.Raw(0x65, 0x48, 0xff, 0x41, byte(disp)) }

// Lahf is `lahf`: SF ZF AF PF CF to AH.
func (a *Asm) Lahf() { a.Raw(0x9f) }

// Sahf is `sahf`: AH to SF ZF AF PF CF.
func (a *Asm) Sahf() { a.Raw(0x9e) }

// SetoAL is `seto %al`.
func (a *Asm) SetoAL() { a.Raw(0x0f, 0x90, 0xc0) }

// AddAL is `add $imm,%al`. With 0x7f it sets OF from a seto's 0 or 1.
func (a *Asm) AddAL(imm byte) { a.Raw(0x04, imm) }

// Syscall is `syscall`.
func (a *Asm) Syscall() { a.Raw(0x0f, 0x05) }
