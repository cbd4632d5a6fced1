package x86

import "encoding/binary"

// Opcodes without VEX or EVEX that are not of vectors.

func (f *facts) oneByte() {
	in := f.in
	op := in.Op
	n := f.size
	if op&1 == 0 {
		n = 1
	}
	switch {
	case op < 0x40:
		switch form := op & 7; {
		case form > 3:
		case form < 2 && op>>3 != 7: // all but cmp
			f.rm(n, operandBoth)
		default:
			f.rm(n, OperandLoad)
		}
	case op < 0x58:
		f.push(f.word())
	case op < 0x60:
		f.pop(f.word())
	case op >= 0x80 && op <= 0x83:
		if in.reg() == 7 { // cmp
			f.rm(n, OperandLoad)
		} else {
			f.rm(n, operandBoth)
		}
	case op >= 0xd8 && op <= 0xdf:
		f.x87()
	case op >= 0xa4 && op <= 0xaf || op >= 0x6c && op <= 0x6f:
		f.strings(n)
	default:
		f.oneByteMore(n)
	}
}

// oneByteMore is the rest; n is the size of an operand where the opcode's lowest bit says
// whether it has 8 bits.
func (f *facts) oneByteMore(n uint16) {
	in := f.in
	switch in.Op {
	case 0x63: // movsxd
		f.rm(min(f.size, 4), OperandLoad)
	case 0x68, 0x6a, 0x9c: // push, pushf
		f.push(f.word())
	case 0x9d: // popf
		f.pop(f.word())
	case 0x69, 0x6b: // imul
		f.rm(f.size, OperandLoad)
	case 0x84, 0x85, 0x8a, 0x8b: // test, mov
		f.rm(n, OperandLoad)
	case 0x86, 0x87: // xchg: as with lock
		f.rm(n, operandBoth).Flags |= OperandAtomic
	case 0x88, 0x89:
		f.rm(n, OperandStore)
	case 0x8c:
		f.rm(2, OperandStore)
	case 0x8d: // lea
		f.rm(0, OperandAddress)
	case 0x8e:
		f.rm(2, OperandLoad)
	case 0x8f: // pop: RSP in its address has moved already
		f.pop(f.word())
		if o := f.rm(f.word(), OperandStore); o.Base == RSP {
			o.Disp += int64(f.word())
		}
	case 0xa0, 0xa1, 0xa2, 0xa3:
		f.absolute(n)
	case 0xc0, 0xc1, 0xd0, 0xd1, 0xd2, 0xd3: // shifts
		f.rm(n, operandBoth)
	case 0xc2, 0xc3, 0xca, 0xcb, 0xcf:
		f.ret()
	case 0xc6, 0xc7:
		if in.Kind != Xbegin && in.ModRM != 0xf8 {
			f.rm(n, OperandStore)
		}
	case 0xc8:
		f.enter()
	case 0xc9: // leave
		f.at(RBP, 0, f.word(), OperandLoad)
	case 0xd7: // xlat
		o := f.indirect(RBX, 1, OperandLoad)
		o.Index = RAX
		o.Flags |= OperandIndexByte
	case 0xe8:
		f.push(8)
	case 0xf6, 0xf7: // test, not, neg, mul, imul, div, idiv
		if reg := in.reg(); reg == 2 || reg == 3 {
			f.rm(n, operandBoth)
		} else {
			f.rm(n, OperandLoad)
		}
	case 0xfe, 0xff:
		f.group5(n)
	}
}

// absolute is mov between rax and an address of 64 bits, with 67 of 32.
func (f *facts) absolute(n uint16) {
	in := f.in
	o := Operand{Base: NoRegister, Index: NoRegister, Scale: 1, Segment: in.segment(f.code)}
	if in.DispSize == 8 {
		o.Disp = int64(binary.LittleEndian.Uint64(f.code[in.DispOff:]))
	} else {
		o.Disp = int64(binary.LittleEndian.Uint32(f.code[in.DispOff:]))
		o.Flags |= OperandAddr32
	}
	kind := OperandLoad
	if in.Op >= 0xa2 {
		kind = OperandStore
	}
	f.add(o, n, kind)
}

// strings is ins, outs, movs, cmps, stos, lods, scas. With DF they go downwards.
func (f *facts) strings(n uint16) {
	op := f.in.Op &^ 1
	if op == 0xa8 { // test
		return
	}
	if op == 0x6c || op == 0x6e {
		n = min(n, 4) // ports have no more
	}
	var source, destination OperandKind
	switch op {
	case 0x6e, 0xac: // outs, lods
		source = OperandLoad
	case 0x6c, 0xaa: // ins, stos
		destination = OperandStore
	case 0xa4: // movs
		source, destination = OperandLoad, OperandStore
	case 0xa6: // cmps
		source, destination = OperandLoad, OperandLoad
	case 0xae: // scas
		destination = OperandLoad
	}
	if source != 0 {
		f.indirect(RSI, n, source)
	}
	if destination != 0 {
		f.indirect(RDI, n, destination).Segment = SegmentNone // ES, and nothing beats that
	}
	if f.in.Prefix&(PrefixRep|PrefixRepne) != 0 {
		for i := range f.n {
			f.ops[i].Flags |= OperandRepeated
		}
	}
}

func (f *facts) ret() {
	switch f.in.Op {
	case 0xc2, 0xc3:
		f.pop(8)
	case 0xcf: // iret: RIP, CS, RFLAGS, RSP, SS
		f.pop(f.size).Count = 5
	default: // RIP, CS
		f.pop(f.size).Count = 2
	}
}

// enter saves RBP, and with a level those of the functions around it and its own.
func (f *facts) enter() {
	n := f.word()
	level := uint16(f.code[f.in.ImmOff+2] & 31)
	if level > 1 {
		f.at(RBP, -int64(n*(level-1)), n, OperandLoad).Count = level - 1
	}
	o := f.push(n)
	if level > 0 {
		o.Count = level + 1
		o.Disp = -int64(n * (level + 1))
	}
}

// group5 is inc, dec, call, far call, jmp, far jmp, push.
func (f *facts) group5(n uint16) {
	switch f.in.reg() {
	case 0, 1:
		f.rm(n, operandBoth)
	case 2:
		f.rm(8, OperandLoad)
		f.push(8)
	case 3: // CS, RIP
		f.rm(f.size+2, OperandLoad)
		o := f.push(f.size)
		o.Count, o.Disp = 2, 2*o.Disp
	case 4:
		f.rm(8, OperandLoad)
	case 5:
		f.rm(f.size+2, OperandLoad)
	case 6:
		f.rm(f.word(), OperandLoad)
		f.push(f.word())
	}
}

// x87 is D8 to DF. SDM vol. 2, tables.
func (f *facts) x87() {
	const load, store = OperandLoad, OperandStore
	environment, state := uint16(28), uint16(108)
	if f.in.wide16() {
		environment, state = 14, 94
	}
	reg := f.in.reg()
	kind := load
	if f.in.Op&1 != 0 && (reg == 1 || reg == 2 || reg == 3 || reg >= 6) {
		kind = store
	}
	var n uint16
	switch f.in.Op {
	case 0xd8, 0xda:
		n = 4
	case 0xdc:
		n = 8
	case 0xde:
		n = 2
	case 0xd9: // fld, -, fst, fstp, fldenv, fldcw, fnstenv, fnstcw
		n = [8]uint16{4, 0, 4, 4, environment, 2, environment, 2}[reg]
	case 0xdb: // fild, fisttp, fist, fistp, -, fld, -, fstp
		n = [8]uint16{4, 4, 4, 4, 0, 10, 0, 10}[reg]
	case 0xdd: // fld, fisttp, fst, fstp, frstor, -, fnsave, fnstsw
		n = [8]uint16{8, 8, 8, 8, state, 0, state, 2}[reg]
	case 0xdf: // fild, fisttp, fist, fistp, fbld, fild, fbstp, fistp
		n = [8]uint16{2, 2, 2, 2, 10, 8, 10, 8}[reg]
	}
	if n > 0 {
		f.rm(n, kind)
	}
}

func (f *facts) twoByte() {
	in := f.in
	op := in.Op
	switch {
	case op&0xf0 == 0x40: // cmov: loads whatever the condition is
		f.rm(f.size, OperandLoad)
	case op&0xf0 == 0x80, op&0xf8 == 0xc8: // jcc, bswap
	case op&0xf0 == 0x90: // set
		f.rm(1, OperandStore)
	case op >= 0x18 && op <= 0x1f:
		f.hint()
	case op == 0x78 && in.Prefix&(PrefixOpSize|PrefixRepne) == 0: // vmread
		f.rm(8, OperandStore)
	case op == 0x79 && in.Prefix&(PrefixOpSize|PrefixRepne) == 0: // vmwrite
		f.rm(8, OperandLoad)
	case op < 0x10 || op >= 0x20 && op < 0x28 || op >= 0x30 && op < 0x40 || op >= 0xa0 && op < 0xc2 || op == 0xc3 || op == 0xc7:
		f.twoByteGeneral()
	default:
		f.vector0F()
	}
}

// hint is 0F 18 to 1F: prefetches, cldemote, and what is a NOP where Linux runs programs (MPX
// is not turned on).
func (f *facts) hint() {
	kind := OperandAddress
	switch reg := f.in.reg(); f.in.Op {
	case 0x18:
		if reg < 4 || reg > 5 {
			kind = OperandPrefetch
		}
	case 0x1c: // cldemote
		if reg == 0 {
			kind = OperandPrefetch
		}
	}
	f.rm(0, kind)
}

func (f *facts) twoByteGeneral() {
	in := f.in
	switch in.Op {
	case 0x00: // sldt, str, lldt, ltr, verr, verw, lkgs
		if in.reg() < 2 {
			f.rm(2, OperandStore)
		} else {
			f.rm(2, OperandLoad)
		}
	case 0x01:
		f.group7()
	case 0x02, 0x03: // lar, lsl
		f.rm(2, OperandLoad)
	case 0x0d:
		f.rm(0, OperandPrefetch)
	case 0xa0, 0xa8: // push fs, gs
		f.push(f.word())
	case 0xa1, 0xa9:
		f.pop(f.word())
	case 0xa3: // bt
		f.rm(f.size, OperandLoad).Flags |= OperandBitOffset
	case 0xab, 0xb3, 0xbb: // bts, btr, btc
		f.rm(f.size, operandBoth).Flags |= OperandBitOffset
	case 0xba:
		if in.reg() == 4 {
			f.rm(f.size, OperandLoad)
		} else {
			f.rm(f.size, operandBoth)
		}
	case 0xa4, 0xa5, 0xac, 0xad: // shld, shrd
		f.rm(f.size, operandBoth)
	case 0xa6, 0xa7: // PadLock: hashes and ciphers of a buffer
		if in.Op == 0xa6 || in.reg() > 0 {
			f.indirect(RSI, 0, OperandLoad).Flags |= OperandVariable
		}
		f.indirect(RDI, 0, operandBoth).Flags |= OperandVariable
	case 0xae:
		f.group15()
	case 0xaf, 0xb8, 0xbc, 0xbd: // imul, popcnt, bsf, bsr
		f.rm(f.size, OperandLoad)
	case 0xb0, 0xc0: // cmpxchg, xadd
		f.rm(1, operandBoth)
	case 0xb1, 0xc1:
		f.rm(f.size, operandBoth)
	case 0xb2, 0xb4, 0xb5: // lss, lfs, lgs
		f.rm(f.size+2, OperandLoad)
	case 0xb6, 0xbe: // movzx, movsx
		f.rm(1, OperandLoad)
	case 0xb7, 0xbf:
		f.rm(2, OperandLoad)
	case 0xc3: // movnti
		f.rm(f.byW(), OperandStore)
	case 0xc7:
		f.group9()
	}
}

// group7 is 0F 01.
func (f *facts) group7() {
	if !f.isMemory() {
		if f.in.ModRM == 0xfc { // clzero
			f.indirect(RAX, 64, OperandStore).Flags |= OperandLine
		}
		return
	}
	switch f.in.reg() {
	case 0, 1: // sgdt, sidt
		f.rm(10, OperandStore)
	case 2, 3: // lgdt, lidt
		f.rm(10, OperandLoad)
	case 4: // smsw
		f.rm(2, OperandStore)
	case 5: // rstorssp
		f.rm(8, operandBoth)
	case 6: // lmsw
		f.rm(2, OperandLoad)
	case 7: // invlpg
		f.rm(0, OperandAddress)
	}
}

// group9 is cmpxchg16b, xrstors, xsavec, xsaves, vmptrld and others.
func (f *facts) group9() {
	switch f.in.reg() {
	case 1:
		f.rm(max(2*f.size, 8), operandBoth)
	case 3:
		f.rm(0, OperandLoad).Flags |= OperandVariable
	case 4, 5:
		f.rm(0, OperandStore).Flags |= OperandVariable
	case 6:
		f.rm(8, OperandLoad)
	case 7:
		f.rm(8, OperandStore)
	}
}

// group15 is fxsave, fxrstor, ldmxcsr, stmxcsr, xsave, xrstor, xsaveopt, clflush and others.
// xsave keeps some of the header that it finds.
func (f *facts) group15() {
	prefixed := f.in.Prefix & (PrefixOpSize | PrefixRep)
	switch f.in.reg() {
	case 0:
		f.rm(512, OperandStore)
	case 1:
		f.rm(512, OperandLoad)
	case 2:
		f.rm(4, OperandLoad)
	case 3:
		f.rm(4, OperandStore)
	case 4:
		if prefixed&PrefixRep != 0 { // ptwrite
			f.rm(f.byW(), OperandLoad)
			return
		}
		f.rm(0, operandBoth).Flags |= OperandVariable
	case 5:
		f.rm(0, OperandLoad).Flags |= OperandVariable
	case 6:
		switch {
		case prefixed&PrefixRep != 0: // clrssbsy
			f.rm(8, operandBoth)
		case prefixed != 0: // clwb
			f.rm(0, OperandFlush)
		default:
			f.rm(0, operandBoth).Flags |= OperandVariable
		}
	case 7: // clflush, clflushopt
		f.rm(0, OperandFlush)
	}
}

func (f *facts) threeByte38() {
	in := f.in
	switch in.Op {
	case 0xf0, 0xf1:
		switch {
		case in.Prefix&PrefixRepne == 0 && in.Op == 0xf0: // movbe
			f.rm(f.size, OperandLoad)
		case in.Prefix&PrefixRepne == 0:
			f.rm(f.size, OperandStore)
		case in.Op == 0xf0: // crc32
			f.rm(1, OperandLoad)
		default:
			f.rm(f.size, OperandLoad)
		}
	case 0xf5: // wruss
		f.rm(f.byW(), OperandStore)
	case 0xf6: // adcx, adox; wrss
		kind := OperandLoad
		if in.Prefix&(PrefixOpSize|PrefixRep) == 0 {
			kind = OperandStore
		}
		f.rm(f.byW(), kind)
	case 0xf8: // movdir64b, enqcmd: the destination's address is in a register
		if f.isMemory() {
			f.rm(64, OperandLoad)
			f.indirect(in.Reg(), 64, OperandStore).Segment = SegmentNone
		}
	case 0xf9: // movdiri
		f.rm(f.byW(), OperandStore)
	case 0xfc: // aadd, aand, aor, axor
		f.rm(f.byW(), operandBoth).Flags |= OperandAtomic
	default:
		f.vector38()
	}
}
