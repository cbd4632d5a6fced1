package x86

import "encoding/binary"

// Map is the opcode map that Inst.Op indexes. The numbers are those that VEX,
// EVEX and XOP prefixes carry.
type Map uint8

// Opcode maps.
const (
	MapLegacy Map = 0  // one-byte opcodes
	Map0F     Map = 1  // 0F xx
	Map0F38   Map = 2  // 0F 38 xx
	Map0F3A   Map = 3  // 0F 3A xx
	MapEVEX5  Map = 5  // AVX512-FP16
	MapEVEX6  Map = 6  // AVX512-FP16
	MapXOP8   Map = 8  // AMD, with an 8-bit immediate
	MapXOP9   Map = 9  // AMD, without immediate
	MapXOPA   Map = 10 // AMD, with a 32-bit immediate
	Map3DNow  Map = 15 // 0F 0F ... suffix; Op is the suffix
)

// Enc is the encoding scheme of an instruction.
type Enc uint8

// Encoding schemes.
const (
	EncLegacy Enc = iota // optional legacy and REX prefixes, then the opcode
	EncVEX               // C4, C5
	EncEVEX              // 62
	EncXOP               // 8F with a map number of 8 or more
)

// Prefix is the set of prefixes of an instruction. VEX, EVEX and XOP
// instructions show their pp field as PrefixOpSize, PrefixRep or PrefixRepne.
type Prefix uint16

// Prefixes. Of F2 and F3 only the last is kept, as for the CPU; REX counts only
// directly before the opcode.
const (
	PrefixOpSize   Prefix = 1 << iota // 66
	PrefixAddrSize                    // 67
	PrefixRep                         // F3
	PrefixRepne                       // F2
	PrefixLock                        // F0
	PrefixFS                          // 64
	PrefixGS                          // 65
	PrefixSegOther                    // 26 2E 36 3E: no segment in 64-bit mode, but hints
	PrefixREX                         // 40..4F
)

// Bits of Inst.Rex.
const (
	RexB = 1 << iota
	RexX
	RexR
	RexW
)

// Kind is what an instruction does to the flow of control.
type Kind uint8

// Kinds. Call, Jmp, Jcc, Loop and Xbegin are direct: the immediate is a
// displacement from the next instruction (BranchTarget).
const (
	Plain   Kind = iota
	Call         // E8
	CallInd      // FF /2, and far FF /3
	Jmp          // E9, EB
	JmpInd       // FF /4, and far FF /5
	Jcc          // 70..7F, 0F 80..8F
	Loop         // E0..E3: loopne, loope, loop, jrcxz, jecxz
	Xbegin       // C7 F8
	Ret          // C2 C3 CA CB CF; also sysret, sysexit
	Syscall      // syscall, sysenter, int 80
	Trap         // ud0 ud1 ud2 hlt int3 int1 int n rsm
	Nop          // 90 and 0F 1F in all lengths, not pause
	Endbr        // endbr64, endbr32
)

// Inst is the layout of one instruction. Offsets count from its first byte; an
// offset, Imm8 and ModRM mean nothing where the field they tell of is not there.
// (decode computes the first seven fields as one word: attr.)
type Inst struct {
	Len      uint8 // 1..15
	DispOff  uint8
	DispSize uint8 // 0, 1, 4; 8 for mov between rax and an absolute address
	ImmOff   uint8
	ModRMOff uint8
	ImmSize  uint8 // 0, 1, 2, 4, 8; 3 for enter (2 and 1), 2 for extrq and insertq (1 and 1)
	Kind     Kind
	Imm8     byte // first byte of the immediate
	HasModRM bool
	ModRM    byte
	Op       byte // opcode byte in Map
	Map      Map
	Enc      Enc
	Rex      byte // RexW|RexR|RexX|RexB in effect, also from VEX, EVEX and XOP
	Prefix   Prefix
}

func (in *Inst) reg() byte { return in.ModRM >> 3 & 7 }

// regForm reports whether ModRM, if there is one, names no memory.
func (in *Inst) regForm() bool { return in.ModRM >= 0xc0 || in.ignoresMod() }

// ignoresMod reports moves of control and debug registers, which take any mod for that of a
// register, so that there is neither SIB nor displacement.
func (in *Inst) ignoresMod() bool {
	return in.Op >= 0x20 && in.Op <= 0x23 && in.Map == Map0F && in.Enc == EncLegacy
}

// wide16 reports whether the operand size is 16 bits: REX.W beats 66.
func (in *Inst) wide16() bool {
	return in.Prefix&PrefixOpSize != 0 && in.Rex&RexW == 0
}

// RIPRel reports whether the memory operand is [rip+disp32].
func (in *Inst) RIPRel() bool {
	return in.HasModRM && in.DispSize == 4 && in.ModRM&0xc7 == 0x05
}

// RIPTarget is the address of the operand [rip+disp32] of the instruction
// whose bytes are at the start of code and which runs at pc. With
// PrefixAddrSize the CPU cuts it to 32 bits, and so does RIPTarget: such an
// instruction can be moved only below 4 GiB.
func (in *Inst) RIPTarget(code []byte, pc uint64) uint64 {
	disp := int32(binary.LittleEndian.Uint32(code[in.DispOff:]))
	target := pc + uint64(in.Len) + uint64(int64(disp))
	if in.Prefix&PrefixAddrSize != 0 {
		return uint64(uint32(target))
	}
	return target
}

// BranchTarget is where the direct branch at the start of code, running at pc,
// leads (for Xbegin: its abort handler). It is 0 for other kinds.
func (in *Inst) BranchTarget(code []byte, pc uint64) uint64 {
	switch in.Kind {
	case Call, Jmp, Jcc, Loop, Xbegin:
	default:
		return 0
	}
	var rel int64
	switch in.ImmSize {
	case 1:
		rel = int64(int8(in.Imm8))
	case 2:
		rel = int64(int16(binary.LittleEndian.Uint16(code[in.ImmOff:])))
	default:
		rel = int64(int32(binary.LittleEndian.Uint32(code[in.ImmOff:])))
	}
	return pc + uint64(in.Len) + uint64(rel)
}

// Cond is the condition code (0..15) of a Jcc, setcc or cmovcc.
func (in *Inst) Cond() byte { return in.Op & 15 }

// OpSizeBranch reports a near branch with an effective 66 prefix. Intel CPUs
// ignore it there; AMD CPUs take a 16-bit displacement and cut RIP to 16 bits
// (SDM vol. 2, APM vol. 3, "CALL (Near)"). Decode gives Intel's length: rel32,
// but rel16 for xbegin. Code that means the same on both cannot hold one, so a
// relocator refuses it.
func (in *Inst) OpSizeBranch() bool {
	switch in.Kind {
	case Call, CallInd, Jmp, JmpInd, Jcc, Loop, Xbegin:
		return in.wide16()
	}
	return false
}

// Far reports a call, jump or return that also loads CS.
func (in *Inst) Far() bool {
	switch in.Kind {
	case CallInd, JmpInd:
		return in.reg()&1 != 0
	case Ret:
		return in.Map != MapLegacy || in.Op >= 0xca
	}
	return false
}

// UsesGS reports whether the instruction depends on the GS base or can change
// it: an override (also one that a later FS override may beat), rdgsbase,
// wrgsbase, swapgs, or a load of the GS selector.
func (in *Inst) UsesGS() bool {
	if in.Prefix&PrefixGS != 0 && in.Kind != Nop {
		return true
	}
	if in.Enc != EncLegacy {
		return false
	}
	switch in.Map {
	case MapLegacy:
		return in.Op == 0x8e && in.reg() == 5 // mov gs, r/m
	case Map0F:
		switch in.Op {
		case 0xa9, 0xb5: // pop gs, lgs
			return true
		case 0xae: // rdgsbase, wrgsbase
			return in.Prefix&PrefixRep != 0 && in.regForm() && in.reg()&5 == 1
		case 0x01: // swapgs
			return in.ModRM == 0xf8
		case 0x00: // lkgs
			return in.Prefix&PrefixRepne != 0 && in.reg() == 6
		}
	}
	return false
}
