package x86

import "encoding/binary"

// Operand is an operand in memory, named by the instruction or implied by it. Its address is
// Segment + Base + Index*Scale + Disp, all as they were before the instruction ran; with
// Addr32 that without Segment is cut to 32 bits.
//
// What the CPU does on its own account is no operand: page tables, descriptor tables, shadow
// stacks, what it saves where it enters the kernel.
type Operand struct {
	Disp    int64
	Size    uint16 // bytes of each element; 0 where OperandVariable or no byte is looked at
	Count   uint16 // elements: of a gather or scatter one for each lane, else one behind the other
	Base    byte   // general register, RIP (of the next instruction) or NoRegister
	Index   byte   // general register, with OperandVSIB a vector register, or NoRegister
	Scale   byte
	Segment Segment
	Kind    OperandKind
	Flags   OperandFlags
}

// RIP is the address of the next instruction, as a base.
const RIP = 16

// Segment is the segment register whose base is added.
type Segment uint8

// Segments that have a base in 64-bit mode.
const (
	SegmentNone Segment = iota
	SegmentFS
	SegmentGS
)

// OperandKind is what is done at an address. Load and Store together is what reads first,
// then writes, even if what it writes is what was there (cmpxchg that fails).
type OperandKind uint8

// Kinds.
const (
	OperandAddress  OperandKind = 0               // nothing: lea, nop, hints, invlpg
	OperandLoad     OperandKind = 1 << (iota - 1) // bytes are read
	OperandStore                                  // bytes are written
	OperandPrefetch                               // the line is asked for; it never faults
	OperandFlush                                  // the line is written back or dropped
)

const operandBoth = OperandLoad | OperandStore

// OperandFlags say more of an operand.
type OperandFlags uint16

// Flags.
const (
	OperandImplicit  OperandFlags = 1 << iota // no ModRM or offset names it
	OperandAtomic                             // read and written as one, for other CPUs
	OperandRepeated                           // rep: as often as RCX says, and not at all if that is 0
	OperandMasked                             // a mask leaves elements out: no more than Size*Count bytes
	OperandVariable                           // its size is a matter of the CPU's state: xsave, tiles
	OperandAddr32                             // 67
	OperandVSIB                               // Index is a vector, each lane has an address
	OperandIndex32                            // that has lanes of 32 bits, which are sign-extended
	OperandIndexByte                          // of Index only the low 8 bits count: xlat
	OperandBitOffset                          // bt and others: and ModRM.reg/8, rounded down to a multiple of Size
	OperandLine                               // the address is rounded down to a multiple of Size
)

// MaxOperands is how many operands in memory an instruction has at most.
const MaxOperands = 2

// Operands stores the operands in memory of the instruction at the start of code, those that
// are read before those that are written, and returns how many there are. Sources: Intel SDM
// vol. 2, with 2.7.5 for the displacement of EVEX; for XOP, 3DNow!, SSE4a and FMA4, AMD APM
// vol. 3 to 5.
func (in *Inst) Operands(code []byte, ops *[MaxOperands]Operand) int {
	f := facts{in: in, code: code, ops: ops}
	f.size = 4
	switch {
	case in.Rex&RexW != 0:
		f.size = 8
	case in.Prefix&PrefixOpSize != 0:
		f.size = 2
	}
	switch {
	case in.Enc != EncLegacy:
		f.vector()
	case in.Map == MapLegacy:
		f.oneByte()
	case in.Map == Map0F:
		f.twoByte()
	case in.Map == Map0F38:
		f.threeByte38()
	case in.Map == Map0F3A:
		f.vector3A()
	case in.Map == Map3DNow:
		f.rm(8, OperandLoad)
	}
	return f.n
}

// Plain reports whether the operand is bytes that follow each other, from an address on that
// general registers alone decide.
func (o *Operand) Plain() bool {
	const other = OperandRepeated | OperandMasked | OperandVariable | OperandAddr32 | OperandVSIB | OperandIndexByte | OperandBitOffset | OperandLine
	return o.Segment == SegmentNone && o.Flags&other == 0 && o.Size > 0
}

// Linear reports whether the operand is bytes that follow each other, from an address on that
// general registers decide, and the base of a segment or that 32 bits count, but not both.
func (o *Operand) Linear() bool {
	p := *o
	p.Segment, p.Flags = SegmentNone, o.Flags&^OperandAddr32
	far, short := o.Segment != SegmentNone, o.Flags&OperandAddr32 != 0
	return p.Plain() && !(far && short) && !((far || short) && o.Base == RIP) && !(far && o.Index == RAX && o.Scale > 1)
}

// facts works out the operands of one instruction.
type facts struct {
	in   *Inst
	code []byte
	ops  *[MaxOperands]Operand
	n    int
	size uint16  // of general operands but bytes
	none Operand // for what is said of an operand that is a register
}

// isMemory reports whether ModRM names memory.
func (f *facts) isMemory() bool { return f.in.HasModRM && !f.in.regForm() }

// add adds an operand of n bytes.
func (f *facts) add(o Operand, n uint16, kind OperandKind) *Operand {
	o.Size, o.Count, o.Kind = n, 1, kind
	p := &f.ops[f.n]
	*p = o
	f.n++
	return p
}

// rm adds the operand that ModRM names, if it is memory.
func (f *facts) rm(n uint16, kind OperandKind) *Operand {
	if !f.isMemory() {
		return &f.none
	}
	o := f.in.named(f.code)
	if f.in.Prefix&PrefixLock != 0 && kind == operandBoth {
		o.Flags |= OperandAtomic
	}
	return f.add(o, n, kind)
}

// at adds an operand that a general register holds the address of.
func (f *facts) at(base byte, disp int64, n uint16, kind OperandKind) *Operand {
	return f.add(Operand{Base: base, Index: NoRegister, Scale: 1, Disp: disp, Flags: OperandImplicit}, n, kind)
}

// indirect is at with segment and address size, for other than the stack.
func (f *facts) indirect(base byte, n uint16, kind OperandKind) *Operand {
	o := f.at(base, 0, n, kind)
	o.Segment = f.in.segment(f.code)
	if f.in.Prefix&PrefixAddrSize != 0 {
		o.Flags |= OperandAddr32
	}
	return o
}

// word is the size of what push and pop move.
func (f *facts) word() uint16 {
	if f.in.wide16() {
		return 2
	}
	return 8
}

func (f *facts) push(n uint16) *Operand { return f.at(RSP, -int64(n), n, OperandStore) }
func (f *facts) pop(n uint16) *Operand  { return f.at(RSP, 0, n, OperandLoad) }

// segment is the last override. In 64-bit mode those of CS, DS, ES and SS are none.
func (in *Inst) segment(code []byte) Segment {
	switch in.Prefix & (PrefixFS | PrefixGS) {
	case 0:
		return SegmentNone
	case PrefixFS:
		return SegmentFS
	case PrefixGS:
		return SegmentGS
	}
	s := SegmentNone
	for _, b := range code {
		switch {
		case b == 0x64:
			s = SegmentFS
		case b == 0x65:
			s = SegmentGS
		case oneByte[b]&attrPrefix == 0:
			return s
		}
	}
	return s
}

// named is the operand in memory that ModRM and SIB name. SDM vol. 2, 2.1.5 and 2.2.1.
func (in *Inst) named(code []byte) Operand {
	o := Operand{Index: NoRegister, Scale: 1, Segment: in.segment(code)}
	if in.Prefix&PrefixAddrSize != 0 {
		o.Flags |= OperandAddr32
	}
	switch in.DispSize {
	case 1:
		o.Disp = int64(int8(code[in.DispOff]))
	case 4:
		o.Disp = int64(int32(binary.LittleEndian.Uint32(code[in.DispOff:])))
	}
	rm := in.ModRM & 7
	switch {
	case in.RIPRel():
		o.Base = RIP
		return o
	case rm != hasSIB:
		o.Base = rm | in.Rex&RexB<<3
		return o
	}
	sib := code[in.ModRMOff+1]
	if index := sib>>3&7 | in.Rex&RexX<<2; index != RSP {
		o.Index = index
		o.Scale = 1 << (sib >> 6)
	}
	if o.Base = sib&7 | in.Rex&RexB<<3; sib&7 == noBase && in.ModRM < 0x40 {
		o.Base = NoRegister
	}
	return o
}
