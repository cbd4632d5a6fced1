package x86

// The opcodes with a VEX or EVEX prefix. Most write the register that ModRM.reg
// names, the rest of it too, and read vvvv and rm. A letter tells of another
// form, or of one without vvvv:
//
//	.  reg, vvvv, rm             1  reg, rm              s  store: rm, reg
//	t  reads reg and rm only     a  reg is read, too     g  general reg, vector rm
//	i  reg, vvvv, general rm     d  reg, general rm      e  general rm, vector reg
//	v  vvvv is written, rm read  p  1; scalar: .         k  masks; m masked move
//	q  conversions of scalars and general registers      h  gather
//	4  ., and a register in the immediate                b  general registers
//	l  movlps and others   x  movd from, movq            c  pcmpestrm and others
//	z  vzeroupper          ?  not known
const vexForms1 = "" +
	/* 00 */ "????????????????" +
	/* 10 */ "psls..ls????????" +
	/* 20 */ "????????1sisqqtt" +
	/* 30 */ "????????????????" +
	/* 40 */ "?kk?kkkk??kk????" +
	/* 50 */ "gppp......p1...." +
	/* 60 */ "..............d1" +
	/* 70 */ "1vvv...z??qq..xs" +
	/* 80 */ "????????????????" +
	/* 90 */ "kkkk????kk??????" +
	/* A0 */ "??????????????t?" +
	/* B0 */ "????????????????" +
	/* C0 */ "??.?ig.?????????" +
	/* D0 */ "......sg........" +
	/* E0 */ "......1s........" +
	/* F0 */ "1......t.......?"

const vexForms2 = "" +
	/* 00 */ "..............tt" +
	/* 10 */ "???1??.t1111111?" +
	/* 20 */ "111111....1.mmnn" +
	/* 30 */ "111111.........." +
	/* 40 */ ".1???...?.??????" +
	/* 50 */ "aaaa????111?????" +
	/* 60 */ "????????????????" +
	/* 70 */ "??1?????11??????" +
	/* 80 */ "????????????m?n?" +
	/* 90 */ "hhhh??aaaaaaaaaa" +
	/* A0 */ "??????aaaaaaaaaa" +
	/* B0 */ "????aaaaaaaaaaaa" +
	/* C0 */ "???????????aaa?." +
	/* D0 */ "??aa??????a1...." +
	/* E0 */ "bbbbbbbbbbbbbbbb" +
	/* F0 */ "??bb?bbb????????"

const vexForms3 = "" +
	/* 00 */ "11..11..11......" +
	/* 10 */ "????eeee.s???s??" +
	/* 20 */ "i.i?????????????" +
	/* 30 */ "kkkk????.s??????" +
	/* 40 */ "...?.?.?..444???" +
	/* 50 */ "????????????4444" +
	/* 60 */ "cccc????44444444" +
	/* 70 */ "????????44444444" +
	/* 80 */ "????????????????" +
	/* 90 */ "????????????????" +
	/* A0 */ "????????????????" +
	/* B0 */ "????????????????" +
	/* C0 */ "??????????????.." +
	/* D0 */ "??????????????.1" +
	/* E0 */ "????????????????" +
	/* F0 */ "b???????????????"

// opcodeAt is the offset of the opcode of an instruction with such a prefix.
func (in *Inst) opcodeAt() int {
	if in.HasModRM {
		return int(in.ModRMOff) - 1
	}
	return int(in.Len) - 1
}

// wide3 is operand n, a vector register; what is written is zeroed to its end. wreg
// and wrm are those that ModRM names.
func (e *effect) wide3(n byte, how access) {
	if how&reads != 0 {
		e.use(vector(n, e.wide), reads)
	}
	if how &^= reads; how != 0 {
		e.use(vector(n, true), how)
	}
}

func (e *effect) wreg(how access) { e.wide3(e.regNumber()|e.high, how) }
func (e *effect) wrm(how access) {
	if e.in.regForm() {
		n := e.rmNumber()
		if e.in.Enc == EncEVEX {
			n |= e.in.Rex & RexX << 3
		}
		e.wide3(n, how)
	}
}

func (e *effect) vex() {
	in := e.in
	at := in.opcodeAt()
	last := e.code[at-1] // W vvvv L pp
	vvvv := ^last >> 3 & 15
	e.wide = last&4 != 0
	form := byte('?')
	switch in.Map {
	case Map0F:
		form = vexForms1[in.Op]
	case Map0F38:
		form = vexForms2[in.Op]
	case Map0F3A:
		form = vexForms3[in.Op]
	}
	switch form {
	case '4': // a register in the immediate
		e.wide3(in.Imm8>>4, reads)
		form = '.'
	case 'b':
		e.bits(vvvv)
		return
	case 'k':
		e.masks(vvvv)
		return
	case 'z': // vzeroupper, vzeroall
		e.use(RegSet{V: 0xffff_0000}, writes)
		if e.wide {
			e.use(RegSet{V: 0xffff}, writes)
		}
		return
	case 'c':
		e.wreg(reads)
		e.wrm(reads)
		e.compareStrings(true)
		return
	case 'h': // gather: VSIB
		index := e.code[in.ModRMOff+1]>>3&7 | in.Rex&RexX<<2
		e.use(vector(index, true), reads)
		e.wreg(reads | merges)
		e.use(vector(vvvv, true), reads|merges)
		return
	}
	e.form(form, vvvv, vvvv)
}

// form is what a letter of the tables says; vvvv is a vector register or, as
// gvvvv, a general one.
func (e *effect) form(form, vvvv, gvvvv byte) {
	in := e.in
	scalarReg := e.scalar() && in.regForm()
	switch form {
	case 'p':
		if form = '1'; e.scalar() && (in.regForm() || in.Op != 0x10) {
			form = '.'
		}
	case 'l': // vmovlps, vmovhps: with F3 and F2 movsldup, movshdup, movddup
		if form = '.'; e.scalar() {
			form = '1'
		}
	case 'q':
		e.conversion(vvvv)
		return
	case 'x': // vmovd, vmovq
		if form = 'e'; in.Prefix&PrefixRep != 0 {
			form = '1'
		}
	case 's':
		if scalarReg && in.Op == 0x11 {
			e.wide3(vvvv, reads)
		}
	}
	switch form {
	case '.', 'a':
		if form == 'a' {
			e.wreg(reads)
		} else if e.zeroes(vvvv) {
			e.wreg(writes)
			return
		}
		e.wide3(vvvv, reads)
		e.wrm(reads)
		e.wreg(writes)
	case '1':
		e.wrm(reads)
		e.wreg(writes)
	case 's':
		e.wreg(reads)
		e.wrm(writes)
	case 't':
		e.wreg(reads)
		e.wrm(reads)
		if in.Op == 0xf7 {
			e.implicit(reads, RDI)
		}
	case 'm': // load by a mask
		e.wide3(vvvv, reads)
		e.wreg(writes)
	case 'n': // store by a mask
		e.wide3(vvvv, reads)
		e.wreg(reads)
	case 'v':
		e.wrm(reads)
		e.wide3(vvvv, writes)
	case 'g':
		e.wrm(reads)
		e.use(general(e.regNumber()&15), writes)
	case 'i', 'd':
		if form == 'i' {
			e.wide3(vvvv, reads)
		}
		if in.regForm() {
			e.use(general(e.rmNumber()&15), reads)
		}
		e.wreg(writes)
	case 'e':
		e.wreg(reads)
		if in.regForm() {
			e.use(general(e.rmNumber()&15), writes)
		}
	default:
		e.unknown()
	}
}

// zeroes reports an operation whose result does not depend on its two operands,
// which are one register.
func (e *effect) zeroes(vvvv byte) bool {
	in := e.in
	if in.Map != Map0F || !in.regForm() || vvvv != e.rmNumber() {
		return false
	}
	return in.Op == 0x57 || in.Op == 0xef || in.Op >= 0xf8 && in.Op <= 0xfb || in.Op >= 0x74 && in.Op <= 0x76 && in.Enc == EncVEX
}

// conversion is between scalars and general registers: 2A, 2C, 2D.
func (e *effect) conversion(vvvv byte) {
	switch {
	case e.in.Op == 0x2a || e.in.Op == 0x7b:
		e.form('i', vvvv, 0)
	default:
		e.form('g', 0, 0)
	}
}

// bits is BMI, and cmpccxadd: general registers.
func (e *effect) bits(vvvv byte) {
	in := e.in
	switch {
	case in.Map == Map0F38 && in.Op&0xf0 == 0xe0:
		e.reg(reads | merges)
		e.use(general(vvvv), reads)
		return
	case in.Op == 0xf3: // blsr and others
		e.use(general(vvvv), writes)
	case in.Op == 0xf6: // mulx
		e.use(general(vvvv), writes)
		e.implicit(reads, RDX)
		e.use(general(e.regNumber()), writes)
	case in.Op == 0xf0: // rorx
		e.use(general(e.regNumber()), writes)
	default:
		e.use(general(vvvv), reads)
		e.use(general(e.regNumber()), writes)
	}
	if in.regForm() {
		e.use(general(e.rmNumber()), reads)
	}
}

// masks is what has a VEX prefix and works on k0 to k7.
func (e *effect) masks(vvvv byte) {
	in := e.in
	op := in.Op
	r, m := mask(in.reg()), mask(in.ModRM)
	switch {
	case in.Map == Map0F3A: // kshift
		e.use(m, reads)
		e.use(r, writes)
	case op == 0x91:
		e.use(r, reads)
	case op == 0x92:
		e.use(general(e.rmNumber()), reads)
		e.use(r, writes)
	case op == 0x93:
		e.use(m, reads)
		e.use(general(e.regNumber()), writes)
	case op == 0x98 || op == 0x99:
		e.use(m, reads)
		e.use(r, reads)
	default:
		if op != 0x44 && op != 0x90 {
			e.use(mask(vvvv), reads)
		}
		if in.regForm() {
			e.use(m, reads)
		}
		e.use(r, writes)
	}
}
