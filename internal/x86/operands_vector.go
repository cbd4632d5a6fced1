package x86

// How many bytes a vector instruction has in memory, by its opcode: those with VEX and EVEX
// are those of SSE, and the letters hold for all.
//
//	.  none                       V  the whole vector        S  scalars with F3 and F2, else V
//	H  half of it, Q E  less      W  8 with W, else 4        M  MMX: 8 without prefix, else V
//	1 2 4 8  bytes                X Y  16, 32                ?  see special
const sizes0F = "" +
	/* 00 */ "................" +
	/* 10 */ "SS?8VV?8........" +
	/* 20 */ "........VV?S????" +
	/* 30 */ "................" +
	/* 40 */ "................" +
	/* 50 */ ".SSSVVVVSS?VSSSS" +
	/* 60 */ "???MMMMMMMMMVVWM" +
	/* 70 */ "MVVVMMM.????VV?M" +
	/* 80 */ "................" +
	/* 90 */ "??.............." +
	/* A0 */ "..............4." +
	/* B0 */ "................" +
	/* C0 */ "..S.2.V........." +
	/* D0 */ "V???MM8.MMMMMMMM" +
	/* E0 */ "M??MMM?MMMMMMMMM" +
	/* F0 */ "V???MMM?MMMMMMM."

const sizes0F38 = "" +
	/* 00 */ "MMMMMMMMMMMMVVVV" +
	/* 10 */ "???????V48XYMMMV" +
	/* 20 */ "HQEHQHVVVVVVV?VV" +
	/* 30 */ "HQEHQHVVVVVVVVVV" +
	/* 40 */ "VVVWVVVV.?.?VWVW" +
	/* 50 */ "VV??VV..48XY...." +
	/* 60 */ "..VVVVV.V......." +
	/* 70 */ "VVVV.VVV12...VVV" +
	/* 80 */ "XXXV....VVVVVVVV" +
	/* 90 */ "????..VVVW??VWVW" +
	/* A0 */ "????..VVVW??VWVW" +
	/* B0 */ "V2..VVVVVWVWVWVW" +
	/* C0 */ "....V.??VVV?V?.V" +
	/* D0 */ "..VV....?.VV????" +
	/* E0 */ "WWWWWWWWWWWWWWWW" +
	/* F0 */ "..WW.WWW........"

const sizes0F3A = "" +
	/* 00 */ "VVVVVVV.VV??VVVM" +
	/* 10 */ "....12W4XXYY.HVV" +
	/* 20 */ "14WV.VV?........" +
	/* 30 */ "........XXYY..VV" +
	/* 40 */ "VVVVV.V.VVVVV..." +
	/* 50 */ "VW..VWV?....VVVV" +
	/* 60 */ "XXXX..V?VV48VV48" +
	/* 70 */ "VVVV....VV48VV48" +
	/* 80 */ "................" +
	/* 90 */ "................" +
	/* A0 */ "................" +
	/* B0 */ "................" +
	/* C0 */ "..?.........V.VV" +
	/* D0 */ "..............VV" +
	/* E0 */ "................" +
	/* F0 */ "W..............."

const sizesEVEX5 = "" +
	/* 00 */ "................" +
	/* 10 */ "22...........?.." +
	/* 20 */ "..........W.2222" +
	/* 30 */ "................" +
	/* 40 */ "................" +
	/* 50 */ ".?......????????" +
	/* 60 */ "..............2." +
	/* 70 */ "........????VV2." +
	/* 80 */ "................" +
	/* 90 */ "................" +
	/* A0 */ "................" +
	/* B0 */ "................" +
	/* C0 */ "................" +
	/* D0 */ "................" +
	/* E0 */ "................" +
	/* F0 */ "................"

const sizesEVEX6 = "" +
	/* 00 */ "................" +
	/* 10 */ "...?............" +
	/* 20 */ "............V2.." +
	/* 30 */ "................" +
	/* 40 */ "..V2........V2V2" +
	/* 50 */ "......V4........" +
	/* 60 */ "................" +
	/* 70 */ "................" +
	/* 80 */ "................" +
	/* 90 */ "......VVV2V2V2V2" +
	/* A0 */ "......VVV2V2V2V2" +
	/* B0 */ "......VVV2V2V2V2" +
	/* C0 */ "................" +
	/* D0 */ "......V4........" +
	/* E0 */ "................" +
	/* F0 */ "................"

// lanes is the length of the vectors in bytes; 16 without VEX.
func (f *facts) lanes() uint16 {
	switch at := f.in.opcodeAt(); f.in.Enc {
	case EncVEX, EncXOP:
		return 16 << (f.code[at-1] >> 2 & 1)
	case EncEVEX:
		return 16 << (f.code[at-1] >> 5 & 3)
	}
	return 16
}

// byW is 8 with W, else 4.
func (f *facts) byW() uint16 {
	if f.in.Rex&RexW != 0 {
		return 8
	}
	return 4
}

// by chooses by the mandatory prefix: none, 66, F3, F2, of which F3 and F2 beat 66.
func (f *facts) by(none, opSize, rep, repne uint16) uint16 {
	switch p := f.in.Prefix; {
	case p&PrefixRep != 0:
		return rep
	case p&PrefixRepne != 0:
		return repne
	case p&PrefixOpSize != 0:
		return opSize
	}
	return none
}

func (f *facts) isLegacy() bool { return f.in.Enc == EncLegacy }
func (f *facts) isEVEX() bool   { return f.in.Enc == EncEVEX }

// letter is the size that a letter of the tables stands for.
func (f *facts) letter(c byte) uint16 {
	v := f.lanes()
	switch c {
	case 'V':
		return v
	case 'H':
		return v / 2
	case 'Q':
		return v / 4
	case 'E':
		return v / 8
	case 'S':
		return f.by(v, v, 4, 8)
	case 'W':
		return f.byW()
	case 'M':
		if f.isLegacy() {
			return f.by(8, v, v, v)
		}
		return v
	case '1', '2', '4', '8':
		return uint16(c - '0')
	case 'X':
		return 16
	case 'Y':
		return 32
	case '?':
		return f.special(v)
	}
	return 0
}

// special is for opcodes of which a letter does not say it; v is the whole vector.
func (f *facts) special(v uint16) uint16 {
	switch f.in.Map {
	case Map0F:
		return f.special0F(v)
	case Map0F38:
		return f.special38(v)
	case Map0F3A:
		return f.special3A(v)
	case MapEVEX5:
		return f.special5(v)
	}
	return f.by(2, v/2, 0, 0) // vcvtsh2ss, vcvtph2psx
}

// vector is what has VEX, EVEX or XOP.
func (f *facts) vector() {
	in := f.in
	if in.Enc == EncXOP {
		f.xop()
		return
	}
	switch in.Map {
	case Map0F:
		f.vector0F()
	case Map0F38:
		f.vector38()
	case Map0F3A:
		f.vector3A()
	case MapEVEX5:
		kind := OperandLoad
		if in.Op == 0x11 || in.Op == 0x7e {
			kind = OperandStore
		}
		f.vectorRM(f.letter(sizesEVEX5[in.Op]), kind)
	case MapEVEX6:
		f.vectorRM(f.letter(sizesEVEX6[in.Op]), OperandLoad)
	}
}

// vectorRM adds the operand that ModRM names, of n bytes, with what EVEX says: elements that
// are left out, one that is read for all, and the displacement of 8 bits in units.
func (f *facts) vectorRM(n uint16, kind OperandKind) *Operand {
	if n == 0 || !f.isMemory() {
		return &f.none
	}
	unit, flags := n, OperandFlags(0)
	if f.isEVEX() {
		p2 := f.code[f.in.opcodeAt()-1]
		if p2&7 != 0 {
			flags = OperandMasked
		}
		if p2&0x10 != 0 {
			n = f.broadcast()
			unit = n
		}
		if e := f.element(); e > 0 {
			unit = e
		}
	}
	o := f.rm(n, kind)
	o.Flags |= flags
	if f.isEVEX() && f.in.DispSize == 1 {
		o.Disp *= int64(unit)
	}
	return o
}

// broadcast is the size of the one element that is read for all.
func (f *facts) broadcast() uint16 {
	in := f.in
	plain := in.Prefix&(PrefixOpSize|PrefixRep|PrefixRepne) == 0
	switch in.Map {
	case Map0F3A:
		if plain {
			return 2
		}
	case MapEVEX5:
		switch {
		case in.Op == 0x1d:
			return 4
		case in.Op == 0x5a && in.Prefix&PrefixOpSize != 0:
			return 8
		case in.Op == 0x5b && plain, in.Op == 0x7a && in.Prefix&PrefixRepne != 0:
			return f.byW()
		}
		return 2
	case MapEVEX6:
		if in.Op == 0x56 || in.Op == 0xd6 {
			return 4
		}
		return 2
	}
	return f.byW()
}

// element is the size of an element of expand, compress, gather and scatter, which is the
// unit of their displacement; 0 for others.
func (f *facts) element() uint16 {
	if f.in.Map != Map0F38 {
		return 0
	}
	switch op := f.in.Op; {
	case op == 0x62 || op == 0x63:
		return f.byW() / 4
	case op >= 0x88 && op <= 0x8b, f.vectorIndex():
		return f.byW()
	}
	return 0
}

// vectorIndex reports gathers and scatters, and their prefetches.
func (f *facts) vectorIndex() bool {
	e := effect{in: f.in}
	return e.vectorIndex()
}

func (f *facts) vector0F() {
	in := f.in
	kind := OperandLoad
	switch in.Op {
	case 0x11, 0x13, 0x17, 0x29, 0x2b, 0x7f, 0x91, 0xd6, 0xe7:
		kind = OperandStore
	case 0x7e:
		if in.Prefix&PrefixRep == 0 {
			kind = OperandStore
		}
	case 0xae: // vldmxcsr, vstmxcsr
		if in.reg() == 3 {
			kind = OperandStore
		}
	case 0xf7: // maskmovq, maskmovdqu
		o := f.indirect(RDI, f.letter('M'), OperandStore)
		o.Flags |= OperandMasked
		return
	}
	f.vectorRM(f.letter(sizes0F[in.Op]), kind)
}

func (f *facts) special0F(v uint16) uint16 {
	in := f.in
	halfUnlessW := v / 2
	if in.Rex&RexW != 0 && f.isEVEX() {
		halfUnlessW = v
	}
	switch in.Op {
	case 0x12, 0x16: // movlps, movhps, movsldup, movshdup, movddup
		if v == 16 {
			return f.by(8, 8, 16, 8)
		}
		return f.by(8, 8, v, v)
	case 0x2a: // cvtpi2ps, cvtsi2ss
		return f.by(8, 8, f.byW(), f.byW())
	case 0x2c, 0x2d: // cvtps2pi, cvtss2si
		return f.by(8, 16, 4, 8)
	case 0x2e, 0x2f: // ucomiss, comiss
		return f.by(4, 8, 4, 4)
	case 0x5a: // conversions between float and double
		return f.by(v/2, v, 4, 8)
	case 0x60, 0x61, 0x62: // punpckl: MMX has half of it
		if f.isLegacy() {
			return f.by(4, v, v, v)
		}
		return v
	case 0x78, 0x79: // conversions to unsigned integers
		return f.by(v, halfUnlessW, 4, 8)
	case 0x7a:
		return f.by(v, halfUnlessW, halfUnlessW, v)
	case 0x7b:
		return f.by(v, halfUnlessW, f.byW(), f.byW())
	case 0x7e: // movq, movd
		return f.by(f.byW(), f.byW(), 8, f.byW())
	case 0x90, 0x91: // kmov
		if in.Rex&RexW != 0 {
			return f.by(8, 4, 0, 0)
		}
		return f.by(2, 1, 0, 0)
	case 0xe6: // conversions between integers and doubles
		return f.by(v, v, halfUnlessW, v)
	}
	if f.isLegacy() { // shifts by a count in 128 bits, whatever is shifted
		return f.by(8, 16, 16, 16)
	}
	return 16
}

func (f *facts) vector38() {
	in := f.in
	op := in.Op
	rep := in.Prefix&PrefixRep != 0
	kind := OperandLoad
	switch {
	case f.vectorIndex():
		f.gather()
		return
	case f.isEVEX() && rep && (op&0xf0 == 0x10 || op&0xf0 == 0x20 || op&0xf0 == 0x30) && op&15 < 6: // vpmov
		f.vectorRM(f.letter("HQEHQH"[op&15]), OperandStore)
		return
	case f.isEVEX() && (op == 0x63 || op == 0x8a || op == 0x8b): // compress
		kind = OperandStore
	case in.Enc == EncVEX && (op == 0x2e || op == 0x2f || op == 0x8e): // vmaskmov
		kind = OperandStore
	case op == 0x49 && in.Prefix&PrefixOpSize != 0, op == 0x4b && rep: // sttilecfg, tilestored
		kind = OperandStore
	case in.Enc == EncVEX && op&0xf0 == 0xe0: // cmpccxadd
		f.vectorRM(f.byW(), operandBoth).Flags |= OperandAtomic
		return
	}
	if op == 0x4b { // rows of a tile
		f.rm(0, kind).Flags |= OperandVariable
		return
	}
	o := f.vectorRM(f.letter(sizes0F38[op]), kind)
	if in.Enc == EncVEX && (op >= 0x2c && op <= 0x2f || op == 0x8c || op == 0x8e) {
		o.Flags |= OperandMasked
	}
}

func (f *facts) special38(v uint16) uint16 {
	op := f.in.Op
	switch {
	case op == 0x13: // vcvtph2ps
		return v / 2
	case op < 0x20:
		return v
	case op == 0x2d || op == 0xcb || op == 0xcd: // scalars with EVEX alone
		if f.isEVEX() {
			return f.byW()
		}
		return v
	case op == 0x49:
		return 64
	case op == 0x52 || op == 0x53: // vp4dpwssd
		return f.by(v, v, v, 16)
	case op&0xf == 0xa: // vfmadd, v4fmaddps
		return f.by(v, v, v, 16)
	case op&0xf == 0xb:
		return f.by(f.byW(), f.byW(), f.byW(), 16)
	case op == 0xd8: // Key Locker: a handle of a key of 128 or 256 bits
		return [2]uint16{48, 64}[f.in.reg()>>1&1]
	case op >= 0xdc:
		if f.isLegacy() && f.in.Prefix&PrefixRep != 0 {
			return [2]uint16{48, 64}[op>>1&1]
		}
		return v
	}
	return v
}

// gather adds the lanes of a gather or a scatter. SDM vol. 2, 2.3.12: VSIB.
func (f *facts) gather() {
	in := f.in
	if !f.isMemory() || in.ModRM&7 != hasSIB {
		return
	}
	kind, op := OperandLoad, in.Op
	switch {
	case op == 0xc6 || op == 0xc7:
		kind = OperandPrefetch
	case op >= 0xa0:
		kind = OperandStore
	}
	size := f.byW()
	index := uint16(8)
	if op&1 == 0 {
		index = 4
	}
	o := f.vectorRM(size, kind)
	o.Size = size
	o.Count = f.lanes() / max(size, index)
	o.Flags |= OperandVSIB | OperandMasked
	if index == 4 {
		o.Flags |= OperandIndex32
	}
	sib := f.code[in.ModRMOff+1]
	o.Index = sib>>3&7 | in.Rex&RexX<<2
	o.Scale = 1 << (sib >> 6)
	if f.isEVEX() {
		o.Index |= ^f.code[in.opcodeAt()-1] & 8 << 1
	}
}

func (f *facts) vector3A() {
	in := f.in
	kind := OperandLoad
	switch in.Op {
	case 0x14, 0x15, 0x16, 0x17, 0x19, 0x1b, 0x1d, 0x39, 0x3b:
		kind = OperandStore
	}
	f.vectorRM(f.letter(sizes0F3A[in.Op]), kind)
}

// special3A is scalars, which are of 16 bits with EVEX without 66, or with F3.
func (f *facts) special3A(v uint16) uint16 {
	half := f.isEVEX() && f.in.Prefix&PrefixOpSize == 0
	switch op := f.in.Op; {
	case op == 0xc2:
		return f.by(v, v, 2, v)
	case half:
		return 2
	case op == 0x0a:
		return 4
	case op == 0x0b:
		return 8
	}
	return f.byW()
}

func (f *facts) special5(v uint16) uint16 {
	switch f.in.Op {
	case 0x1d: // vcvtss2sh, vcvtps2phx
		return f.by(4, v, 0, 0)
	case 0x5a:
		return f.by(v/4, v, 2, 8)
	case 0x5b:
		return f.by(v, v/2, v/2, v)
	case 0x78, 0x79:
		return f.by(v/2, v/4, 2, 2)
	case 0x7a:
		return f.by(v, v/4, v, v)
	case 0x7b:
		return f.by(v, v/4, f.byW(), v)
	}
	return f.by(v, v, 2, v)
}

// xop is vectors, TBM, and lwpins, lwpval.
func (f *facts) xop() {
	in := f.in
	switch op := in.Op; {
	case in.Map == MapXOPA && op == 0x12:
		f.rm(4, OperandLoad)
	case in.Map == MapXOPA, in.Map == MapXOP9 && op < 0x10:
		f.rm(f.byW(), OperandLoad)
	case in.Map == MapXOP9 && (op == 0x82 || op == 0x83): // vfrczss, vfrczsd
		f.rm(4<<(op&1), OperandLoad)
	default:
		f.rm(f.lanes(), OperandLoad)
	}
}
