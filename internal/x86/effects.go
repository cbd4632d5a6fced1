package x86

// Effects are what an instruction does to registers.
type Effects struct {
	Read    RegSet // what it may read
	Written RegSet // what it may write any part of
	Killed  RegSet // what it surely overwrites: all of it, whatever its operands
}

// access is how an operand is used.
type access uint8

const (
	reads  access = 1 << iota
	writes        // all of the register, or of what it stands for
	merges        // a part of it; the rest stays
	both   = reads | writes
)

// effect works out Effects of one instruction.
type effect struct {
	in   *Inst
	code []byte
	byte bool // operands have 8 bits
	wide bool // vectors have more than 128 bits
	high byte // 16 if ModRM.reg names a vector register from 16 on
	Effects
}

// Effects says what the instruction at the start of code does to registers,
// RSP, flags and the x87 and MMX registers left out. What a call, a jump or a
// return leads to is not looked at. An instruction that is not known reads
// everything and writes nothing. SDM volume 2; APM volumes 3 and 4.
func (in *Inst) Effects(code []byte) Effects {
	e := effect{in: in, code: code}
	if in.Kind == Nop || in.Kind == Endbr {
		return e.Effects
	}
	if in.HasModRM && !in.regForm() && in.Enc != EncXOP {
		e.address()
	}
	switch {
	case in.Enc == EncVEX:
		e.vex()
	case in.Enc == EncEVEX:
		e.evex()
	case in.Enc == EncXOP, in.Map == Map3DNow && !in.HasModRM:
		e.unknown()
	case in.Map == MapLegacy:
		e.oneByte()
	case in.Map == Map0F:
		e.twoByte()
	case in.Map == Map0F38:
		e.threeByte38()
	case in.Map == Map0F3A:
		e.threeByte3A()
	}
	e.Read.G &^= 1 << RSP
	e.Written.G &^= 1 << RSP
	e.Killed.G &^= 1 << RSP
	return e.Effects
}

func (e *effect) unknown() { e.Read = RegSet{0xffffff, ^uint64(0)} }

// use notes that registers s are used so.
func (e *effect) use(s RegSet, how access) {
	if how&reads != 0 {
		e.Read = e.Read.Or(s)
	}
	if how&(writes|merges) != 0 {
		e.Written = e.Written.Or(s)
	}
	if how&writes != 0 && how&merges == 0 {
		e.Killed = e.Killed.Or(s)
	}
}

// address is what the memory operand's address needs.
func (e *effect) address() {
	in := e.in
	rm := in.ModRM & 7
	if rm == 4 {
		sib := e.code[in.ModRMOff+1]
		if index := sib>>3&7 | in.Rex&RexX<<2; index != 4 && !e.vectorIndex() {
			e.use(general(index), reads)
		}
		if base := sib & 7; base != 5 || in.ModRM >= 0x40 {
			e.use(general(base|in.Rex&RexB<<3), reads)
		}
	} else if rm != 5 || in.ModRM >= 0x40 {
		e.use(general(rm|in.Rex&RexB<<3), reads)
	}
}

// vectorIndex reports gathers and scatters.
func (e *effect) vectorIndex() bool {
	op := e.in.Op
	return e.in.Map == Map0F38 && (op >= 0x90 && op <= 0x93 && e.in.Enc != EncLegacy ||
		e.in.Enc == EncEVEX && (op >= 0xa0 && op <= 0xa3 || op == 0xc6 || op == 0xc7))
}

func (e *effect) regNumber() byte { return e.in.reg() | e.in.Rex&RexR<<1 }
func (e *effect) rmNumber() byte  { return e.in.ModRM&7 | e.in.Rex&RexB<<3 }

// general notes an operand in general register n.
func (e *effect) general(n byte, how access) {
	if e.byte && e.in.Prefix&PrefixREX == 0 && e.in.Enc == EncLegacy && n >= 4 && n < 8 {
		n -= 4 // ah, ch, dh, bh
	}
	if how&writes != 0 && (e.byte || e.in.wide16()) {
		how |= merges
	}
	e.use(general(n), how)
}

// reg is the operand that ModRM.reg names, a general register; rm the other.
func (e *effect) reg(how access) { e.general(e.regNumber(), how) }
func (e *effect) rm(how access) {
	if e.in.regForm() {
		e.general(e.rmNumber(), how)
	}
}

// xreg and xrm are these as vector registers.
func (e *effect) xreg(how access) { e.use(vector(e.regNumber(), false), how) }
func (e *effect) xrm(how access) {
	if e.in.regForm() {
		e.use(vector(e.rmNumber(), false), how)
	}
}

// same reports that both operands of ModRM are one register.
func (e *effect) same() bool {
	return e.in.regForm() && e.regNumber() == e.rmNumber()
}

// implicit notes general registers that no operand names.
func (e *effect) implicit(how access, list ...byte) {
	for _, n := range list {
		e.use(general(n), how)
	}
}
