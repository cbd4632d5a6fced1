package x86

import "encoding/binary"

// Memory is an operand in memory: base + index*scale + disp.
type Memory struct {
	Base, Index byte // general registers, or NoRegister
	Scale       byte
	Disp        int32
	Segment     Segment // its base is added, as it is then,
	Addr32      bool    // or of the sum 32 bits count
}

// NoRegister is in place of a register's number where there is none.
const NoRegister = 0xff

// Memory is the operand in memory of the legacy instruction at the start of code; false if
// it has none, or one relative to RIP or to FS or GS, or with 32-bit registers.
func (in *Inst) Memory(code []byte) (m Memory, ok bool) {
	if !in.HasModRM || in.regForm() || in.RIPRel() || in.Enc != EncLegacy || in.Prefix&(PrefixFS|PrefixGS|PrefixAddrSize) != 0 {
		return m, false
	}
	o := in.named(code)
	return Memory{Base: o.Base, Index: o.Index, Scale: o.Scale, Disp: int32(o.Disp)}, true
}

// In the low bits of ModRM: a SIB byte follows; and of that, without ModRM's mod: a
// displacement of 32 bits in place of a base.
const (
	hasSIB = 4
	noBase = 5
)

// Reg is the general register that ModRM.reg names.
func (in *Inst) Reg() byte { return in.reg() | in.Rex&RexR<<1 }

// RM is the general register that ModRM.rm names; false if it is memory.
func (in *Inst) RM() (n byte, ok bool) {
	return in.ModRM&7 | in.Rex&RexB<<3, in.HasModRM && in.regForm()
}

// IsHighByte reports whether operand n of an instruction with 8-bit operands is ah, ch, dh or
// bh.
func (in *Inst) IsHighByte(n byte) bool {
	return in.Prefix&PrefixREX == 0 && in.Enc == EncLegacy && n >= 4 && n < 8
}

// Displaced writes the instruction at the start of code, which has an operand in memory with
// a SIB byte and no immediate, with another displacement.
func (a *Asm) Displaced(in *Inst, code []byte, disp int32) {
	const mod32 = 0x80
	sib := code[in.ModRMOff+1]
	modRM := in.ModRM
	if sib&7 != noBase || modRM >= 0x40 {
		modRM = modRM&0x3f | mod32
	}
	a.Copy(code[:in.ModRMOff])
	a.Raw(modRM, sib)
	a.imm32(disp)
}

// PutDisp32 sets the 32 bits that end at offset end of what is written.
func (a *Asm) PutDisp32(end int, disp int32) {
	if a.err == nil {
		binary.LittleEndian.PutUint32(a.buf[end-4:], uint32(disp))
	}
}
