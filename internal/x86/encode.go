package x86

// One method for each instruction form. The comment is the instruction as
// objdump prints it; encode_test.go assembles each and reads it back with
// objdump. Encodings: Intel SDM volume 2, chapter 2 (formats) and the page of
// each instruction.

// Cond is a condition code: the low nibble of jcc.
type Cond byte

// Conditions, SDM volume 1 appendix B.
const (
	CondE  Cond = 0x4
	CondNE Cond = 0x5
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

// PushRAX is `push %rax`.
func (a *Asm) PushRAX() { a.Raw(0x50) }

// PopRAX is `pop %rax`.
func (a *Asm) PopRAX() { a.Raw(0x58) }

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
