package x86

// FlagSet is a set of status flags, at their places in RFLAGS.
type FlagSet uint16

// Status flags. SDM vol. 1, 3.4.3.1.
const (
	FlagCF FlagSet = 1 << 0
	FlagPF FlagSet = 1 << 2
	FlagAF FlagSet = 1 << 4
	FlagZF FlagSet = 1 << 6
	FlagSF FlagSet = 1 << 7
	FlagOF FlagSet = 1 << 11

	FlagsAll = FlagCF | FlagPF | FlagAF | FlagZF | FlagSF | FlagOF

	flagsLogic = FlagsAll &^ FlagAF                // and, or, xor, test: AF is undefined
	flagsCount = FlagsAll &^ FlagCF                // inc, dec
	flagsCarry = FlagCF | FlagOF                   // mul, imul, rotate by 1: the others are undefined or kept
	flagsAH    = FlagsAll &^ FlagOF                // lahf, sahf
	flagsBMI   = FlagCF | FlagZF | FlagSF | FlagOF // andn, blsr and others: PF and AF are undefined
	flagsFCOMI = FlagCF | FlagPF | FlagZF          // fcomi and others
	flagsShift = FlagCF | FlagPF | FlagZF | FlagSF // by a count above 1: OF and AF are undefined
	noFlags    = FlagSet(0)
)

// Flags are the status flags that the instruction may read, and those that it
// surely overwrites whatever its operands; what it leaves undefined is not
// among them. SDM vol. 1, appendix A, and vol. 2; APM vol. 3, appendix E.
//
// Flags that leave the instruction stream are not read: calls, returns and
// branches hand them on, and of syscall's copy in R11 the kernel makes no use
// that a program may rely on (System V ABI, A.2.1: destroyed).
func (in *Inst) Flags() (read, written FlagSet) {
	switch {
	case in.Enc != EncLegacy:
		return noFlags, in.flagsVEX()
	case in.Map == MapLegacy:
		return in.flagsOneByte()
	case in.Map == Map0F:
		return in.flags0F()
	case in.Map == Map0F38:
		return in.flags0F38()
	case in.Map == Map0F3A && in.Op&0xfc == 0x60: // pcmpestrm and others
		return noFlags, FlagsAll
	}
	return noFlags, noFlags
}

// conditionFlags are read by condition code n. SDM vol. 1, appendix B.
func conditionFlags(n byte) FlagSet {
	return [8]FlagSet{
		FlagOF, FlagCF, FlagZF, FlagCF | FlagZF,
		FlagSF, FlagPF, FlagSF | FlagOF, FlagSF | FlagOF | FlagZF,
	}[n>>1&7]
}

// arithmeticFlags is for add, or, adc, sbb, and, sub, xor, cmp.
func arithmeticFlags(n byte) (read, written FlagSet) {
	switch n {
	case 1, 4, 6:
		return noFlags, flagsLogic
	case 2, 3:
		return FlagCF, FlagsAll
	}
	return noFlags, FlagsAll
}

func (in *Inst) flagsOneByte() (read, written FlagSet) {
	op := in.Op
	switch {
	case op < 0x40 && op&7 < 6:
		return arithmeticFlags(op >> 3)
	case op >= 0x80 && op <= 0x83:
		return arithmeticFlags(in.reg())
	case op&0xf0 == 0x70: // jcc
		return conditionFlags(op), noFlags
	case op >= 0xd8 && op <= 0xdf:
		return in.flagsX87()
	}
	switch op {
	case 0x69, 0x6b: // imul
		return noFlags, flagsCarry
	case 0x84, 0x85, 0xa8, 0xa9: // test
		return noFlags, flagsLogic
	case 0x9c: // pushf
		return FlagsAll, noFlags
	case 0x9d, 0xcf: // popf, iret
		return noFlags, FlagsAll
	case 0x9e: // sahf
		return noFlags, flagsAH
	case 0x9f: // lahf
		return flagsAH, noFlags
	case 0xa6, 0xa7, 0xae, 0xaf: // cmps, scas; with rep perhaps 0 times
		if in.Prefix&(PrefixRep|PrefixRepne) != 0 {
			return noFlags, noFlags
		}
		return noFlags, FlagsAll
	case 0xc0, 0xc1, 0xd0, 0xd1, 0xd2, 0xd3:
		return in.flagsShift()
	case 0xe0, 0xe1: // loopne, loope
		return FlagZF, noFlags
	case 0xf5: // cmc
		return FlagCF, FlagCF
	case 0xf6, 0xf7:
		return noFlags, [8]FlagSet{flagsLogic, flagsLogic, 0, FlagsAll, flagsCarry, flagsCarry, 0, 0}[in.reg()]
	case 0xf8, 0xf9: // clc, stc
		return noFlags, FlagCF
	case 0xfe, 0xff: // inc, dec
		if in.reg() < 2 {
			return noFlags, flagsCount
		}
	}
	return noFlags, noFlags
}

// flagsShift is for rol, ror, rcl, rcr, shl, shr, sal, sar. A count of 0, after
// masking, changes no flag.
func (in *Inst) flagsShift() (read, written FlagSet) {
	reg := in.reg()
	if reg == 2 || reg == 3 { // rcl, rcr
		read = FlagCF
	}
	count := 1
	switch in.Op {
	case 0xc0, 0xc1:
		count = in.shiftCount()
	case 0xd2, 0xd3: // by CL
		return read, noFlags
	}
	switch {
	case count == 0, read != 0 && count > 1 && in.shiftWidth() < 64: // counts modulo 9 or 17 too
		return read, noFlags
	case reg < 4 && count == 1:
		return read, flagsCarry
	case reg < 4:
		return read, FlagCF
	case count == 1:
		return read, flagsShift | FlagOF
	case reg != 7 && count >= in.shiftWidth(): // the last bit out is undefined
		return read, flagsShift &^ FlagCF
	}
	return read, flagsShift
}

// shiftCount is the immediate count as the CPU masks it.
func (in *Inst) shiftCount() int {
	if in.Rex&RexW != 0 && in.shiftWidth() == 64 {
		return int(in.Imm8 & 63)
	}
	return int(in.Imm8 & 31)
}

// shiftWidth is the operand's size in bits, or 64 if it is larger than any count.
func (in *Inst) shiftWidth() int {
	switch {
	case in.Map == MapLegacy && in.Op&1 == 0:
		return 8
	case in.wide16():
		return 16
	}
	return 64
}

// flagsX87 is for fcmovcc, and for fcomi, fucomi, fcomip, fucomip with their
// exceptions masked.
func (in *Inst) flagsX87() (read, written FlagSet) {
	if !in.regForm() {
		return noFlags, noFlags
	}
	reg := in.reg()
	switch {
	case (in.Op == 0xda || in.Op == 0xdb) && reg < 4:
		return [4]FlagSet{FlagCF, FlagZF, FlagCF | FlagZF, FlagPF}[reg], noFlags
	case (in.Op == 0xdb || in.Op == 0xdf) && (reg == 5 || reg == 6):
		return noFlags, flagsFCOMI
	}
	return noFlags, noFlags
}

func (in *Inst) flags0F() (read, written FlagSet) {
	op := in.Op
	rep := in.Prefix&PrefixRep != 0
	switch op & 0xf0 {
	case 0x40, 0x80, 0x90: // cmovcc, jcc, setcc
		return conditionFlags(op), noFlags
	}
	switch op {
	case 0x00: // verr, verw
		if in.reg() == 4 || in.reg() == 5 {
			return noFlags, FlagZF
		}
	case 0x01:
		if in.ModRM == 0xd6 || in.ModRM == 0xed && rep { // xtest, testui
			return noFlags, FlagsAll
		}
	case 0x02, 0x03: // lar, lsl
		return noFlags, FlagZF
	case 0x2e, 0x2f: // ucomiss, comiss and others
		return noFlags, FlagsAll
	case 0xa3, 0xab, 0xb3, 0xba, 0xbb: // bt, bts, btr, btc
		return noFlags, FlagCF
	case 0xa4, 0xac: // shld, shrd; undefined beyond the width
		if n := in.shiftCount(); n != 0 && n < in.shiftWidth() {
			return noFlags, flagsShift
		}
	case 0xae: // tpause, umwait
		if in.regForm() && in.reg() == 6 && in.Prefix&(PrefixOpSize|PrefixRepne) != 0 {
			return noFlags, FlagsAll
		}
	case 0xaf: // imul
		return noFlags, flagsCarry
	case 0xb0, 0xb1, 0xc0, 0xc1: // cmpxchg, xadd
		return noFlags, FlagsAll
	case 0xb8: // popcnt
		return noFlags, FlagsAll
	case 0xbc, 0xbd: // bsf, bsr; tzcnt, lzcnt
		if rep {
			return noFlags, FlagCF | FlagZF
		}
		return noFlags, FlagZF
	case 0xc7:
		return noFlags, in.flagsGroup9(rep)
	}
	return noFlags, noFlags
}

// flagsGroup9 is for cmpxchg8b, rdrand, rdseed.
func (in *Inst) flagsGroup9(rep bool) FlagSet {
	switch {
	case !in.regForm() && in.reg() == 1:
		return FlagZF
	case in.regForm() && in.reg() >= 6 && !rep:
		return FlagsAll
	}
	return noFlags
}

func (in *Inst) flags0F38() (read, written FlagSet) {
	rep, repne := in.Prefix&PrefixRep != 0, in.Prefix&PrefixRepne != 0
	switch in.Op {
	case 0x17: // ptest
		return noFlags, FlagsAll
	case 0xf6: // adcx, adox
		switch {
		case rep:
			return FlagOF, FlagOF
		case in.Prefix&PrefixOpSize != 0:
			return FlagCF, FlagCF
		}
	case 0xf8: // enqcmd, enqcmds
		if rep || repne {
			return noFlags, FlagsAll
		}
	}
	return noFlags, noFlags
}

// flagsVEX is for all encodings with a vvvv field. None reads a flag.
func (in *Inst) flagsVEX() FlagSet {
	plain := in.Prefix&(PrefixOpSize|PrefixRep|PrefixRepne) == 0
	switch in.Map {
	case Map0F, MapEVEX5:
		switch in.Op {
		case 0x2e, 0x2f: // vucomiss, vcomiss and others
			return FlagsAll
		case 0x98, 0x99: // kortest, ktest
			return FlagsAll
		}
	case Map0F38:
		switch {
		case in.Enc != EncVEX:
		case in.Op == 0x17 || in.Op == 0x0e || in.Op == 0x0f: // vptest, vtestps, vtestpd
			return FlagsAll
		case in.Op&0xf0 == 0xe0: // cmpccxadd
			return FlagsAll
		case (in.Op == 0xf2 || in.Op == 0xf3 || in.Op == 0xf5) && plain: // andn, blsr ..., bzhi
			return flagsBMI
		case in.Op == 0xf7 && plain: // bextr
			return flagsBMI &^ FlagSF
		}
	case Map0F3A:
		if in.Enc == EncVEX && in.Op&0xfc == 0x60 { // vpcmpestrm and others
			return FlagsAll
		}
	case MapXOP9: // blcfill and others
		if in.Op <= 0x02 {
			return flagsBMI
		}
	case MapXOPA: // bextr
		if in.Op == 0x10 {
			return flagsBMI &^ FlagSF
		}
	}
	return noFlags
}
