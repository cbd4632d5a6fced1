package x86

// scalar reports an F3 or F2 prefix: of the destination only the lowest element
// is written, unless it is loaded from memory.
func (e *effect) scalar() bool { return e.in.Prefix&(PrefixRep|PrefixRepne) != 0 }

// xmm reports whether an opcode that MMX has, too, works on vector registers.
func (e *effect) xmm() bool { return e.in.Prefix&PrefixOpSize != 0 }

// sse is 0F 10 to 17, 28 to 2F and 50 to 7F.
func (e *effect) sse() {
	in := e.in
	switch op := in.Op; op {
	case 0x10:
		e.moveScalar()
	case 0x11:
		e.xreg(reads)
		if e.scalar() {
			e.xrm(reads | merges)
		} else {
			e.xrm(writes)
		}
	case 0x12, 0x16: // movlps, movhps; with F3 and F2 movsldup, movshdup, movddup
		if e.scalar() {
			e.xreg(writes)
		} else {
			e.xreg(reads | merges)
		}
		e.xrm(reads)
	case 0x13, 0x17, 0x2b:
		e.xreg(reads)
	case 0x14, 0x15, 0x54, 0x55, 0x56, 0x58, 0x59, 0x5c, 0x5d, 0x5e, 0x5f, 0x7c, 0x7d:
		e.xreg(both)
		e.xrm(reads)
	case 0x57: // xorps
		e.unlessSame()
	case 0x28, 0x6f:
		if op == 0x28 || e.xmm() || e.scalar() {
			e.xreg(writes)
			e.xrm(reads)
		}
	case 0x29:
		e.xreg(reads)
		e.xrm(writes)
	case 0x2a: // cvtpi2ps, cvtsi2ss
		e.xreg(reads | merges)
		if e.scalar() {
			e.rm(reads)
		}
	case 0x2c, 0x2d: // cvtps2pi, cvtss2si
		if e.scalar() {
			e.use(general(e.regNumber()), writes)
		}
		e.xrm(reads)
	case 0x2e, 0x2f:
		e.xreg(reads)
		e.xrm(reads)
	case 0x50: // movmskps
		e.use(general(e.regNumber()), writes)
		e.xrm(reads)
	case 0x51, 0x52, 0x53, 0x5a, 0x5b:
		if e.scalar() && op != 0x5b {
			e.xreg(reads | merges)
		} else {
			e.xreg(writes)
		}
		e.xrm(reads)
	default:
		e.sseInteger(op)
	}
}

// moveScalar is movups and others, movss, movsd: from a register the rest stays.
func (e *effect) moveScalar() {
	if e.scalar() && e.in.regForm() {
		e.xreg(reads | merges)
	} else {
		e.xreg(writes)
	}
	e.xrm(reads)
}

// unlessSame is an operation whose result does not depend on its operands where
// they are the same register.
func (e *effect) unlessSame() {
	if e.same() {
		e.xreg(writes)
		return
	}
	e.xreg(both)
	e.xrm(reads)
}

// sseInteger is 0F 60 to 7F but for what MMX registers do alone.
func (e *effect) sseInteger(op byte) {
	in := e.in
	switch op {
	case 0x6e: // movd
		if e.xmm() {
			e.xreg(writes)
		}
		if in.regForm() {
			e.use(general(e.rmNumber()), reads)
		}
		return
	case 0x7e:
		if in.Prefix&PrefixRep != 0 { // movq
			e.xreg(writes)
			e.xrm(reads)
			return
		}
		if e.xmm() {
			e.xreg(reads)
		}
		if in.regForm() {
			e.use(general(e.rmNumber()), writes)
		}
		return
	case 0x70: // pshufd and others
		if e.xmm() || e.scalar() {
			e.xreg(writes)
			e.xrm(reads)
		}
		return
	case 0x7f:
		if e.xmm() || e.scalar() {
			e.xreg(reads)
			e.xrm(writes)
		}
		return
	case 0x78, 0x79: // extrq, insertq
		e.xreg(reads | merges)
		e.xrm(reads | merges)
		return
	}
	switch {
	case !e.xmm():
	case op >= 0x71 && op <= 0x73: // shifts by an immediate
		e.xrm(both)
	case op >= 0x74 && op <= 0x76 && e.same(): // pcmpeq: all ones
		e.xreg(writes)
	default:
		e.xreg(both)
		e.xrm(reads)
	}
}

// sseHigh is 0F D0 to FF.
func (e *effect) sseHigh() {
	op := e.in.Op
	switch op {
	case 0xd6: // movq; movq2dq, movdq2q
		switch {
		case e.xmm():
			e.xreg(reads)
			e.xrm(writes)
		case e.in.Prefix&PrefixRep != 0:
			e.xreg(writes)
		default:
			e.xrm(reads)
		}
		return
	case 0xd7: // pmovmskb
		e.use(general(e.regNumber()), writes)
		if e.xmm() {
			e.xrm(reads)
		}
		return
	case 0xe6, 0xf0: // cvtdq2pd and others, lddqu
		e.xreg(writes)
		e.xrm(reads)
		return
	case 0xe7, 0xf7: // movntdq, maskmovdqu
		if e.xmm() {
			e.xreg(reads)
			e.xrm(reads)
		}
		if op == 0xf7 {
			e.implicit(reads, RDI)
		}
		return
	case 0xff: // ud0
		return
	case 0xd0:
		e.xreg(both)
		e.xrm(reads)
		return
	}
	if !e.xmm() {
		return
	}
	switch op {
	case 0xef, 0xf8, 0xf9, 0xfa, 0xfb, 0xd8, 0xd9, 0xe8, 0xe9: // pxor, psub: zero
		e.unlessSame()
	default:
		e.xreg(both)
		e.xrm(reads)
	}
}

func (e *effect) threeByte38() {
	in := e.in
	op := in.Op
	switch {
	case op >= 0xf0:
		e.threeByteF()
		return
	case op < 0x0c || op == 0x1c || op == 0x1d || op == 0x1e:
		if !e.xmm() {
			return // MMX
		}
	}
	switch op {
	case 0x10, 0x14, 0x15: // blends by xmm0
		e.use(vector(0, false), reads)
		e.xreg(both)
	case 0x17: // ptest
		e.xreg(reads)
	case 0x1c, 0x1d, 0x1e, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x2a, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x41, 0xdb:
		e.xreg(writes)
	case 0x80, 0x81, 0x82: // invept and others
		e.use(general(e.regNumber()), reads)
	case 0xcb: // sha256rnds2
		e.use(vector(0, false), reads)
		e.xreg(both)
	case 0xd8, 0xfa, 0xfb: // key locker
		e.unknown()
		return
	case 0xdc, 0xdd, 0xde, 0xdf:
		e.xreg(both)
		if in.Prefix&PrefixRep != 0 {
			e.unknown()
			return
		}
	default:
		e.xreg(both)
	}
	e.xrm(reads)
}

// threeByteF is movbe, crc32, adcx, adox and others.
func (e *effect) threeByteF() {
	in := e.in
	switch in.Op {
	case 0xf0, 0xf1:
		switch {
		case in.Prefix&PrefixRepne != 0: // crc32: all of the register, whatever the source's size
			e.use(general(e.regNumber()), both)
			e.byte = in.Op == 0xf0
			e.rm(reads)
		case in.Op == 0xf0:
			e.reg(writes)
		default:
			e.reg(reads)
		}
	case 0xf6: // adcx, adox; wrss
		if e.xmm() || in.Prefix&PrefixRep != 0 {
			e.use(general(e.regNumber()), both)
		} else {
			e.use(general(e.regNumber()), reads)
		}
		if in.regForm() {
			e.use(general(e.rmNumber()), reads)
		}
	case 0xf5, 0xf8, 0xf9:
		e.use(general(e.regNumber()), reads)
	default:
		e.unknown()
	}
}

func (e *effect) threeByte3A() {
	in := e.in
	op := in.Op
	switch op {
	case 0x08, 0x09, 0xdf: // round, aeskeygenassist
		e.xreg(writes)
		e.xrm(reads)
	case 0x0f: // palignr
		if e.xmm() {
			e.xreg(both)
			e.xrm(reads)
		}
	case 0x14, 0x15, 0x16, 0x17: // pextr
		e.xreg(reads)
		if in.regForm() {
			e.use(general(e.rmNumber()), writes)
		}
	case 0x20, 0x22: // pinsr
		e.xreg(reads | merges)
		if in.regForm() {
			e.use(general(e.rmNumber()), reads)
		}
	case 0x60, 0x61, 0x62, 0x63:
		e.xreg(reads)
		e.xrm(reads)
		e.compareStrings(false)
	case 0xf0: // hreset
		e.implicit(reads, RAX)
	default:
		e.xreg(both)
		e.xrm(reads)
	}
}

// compareStrings is what pcmpestrm and the like use beyond their operands.
func (e *effect) compareStrings(vex bool) {
	if e.in.Op < 0x62 {
		e.implicit(reads, RAX, RDX)
	}
	if e.in.Op&1 == 0 {
		e.use(vector(0, vex), writes)
	} else {
		e.implicit(writes, RCX)
	}
}
