package x86

// Opcodes without VEX or EVEX.

func (e *effect) oneByte() {
	in := e.in
	op := in.Op
	switch {
	case op < 0x40:
		e.arithmetic(op>>3, op&7)
		return
	case op&0xf8 == 0x50: // push
		e.use(general(op&7|in.Rex&RexB<<3), reads)
		return
	case op&0xf8 == 0x58: // pop
		e.general(op&7|in.Rex&RexB<<3, writes)
		return
	case op >= 0x80 && op <= 0x83:
		e.byte = op&1 == 0
		if in.reg() == 7 {
			e.rm(reads)
		} else {
			e.rm(both)
		}
		return
	case op&0xf8 == 0x90: // xchg with rax
		e.general(op&7|in.Rex&RexB<<3, both)
		e.general(RAX, both)
		return
	case op&0xf8 == 0xb0: // mov of an immediate
		e.byte = true
		e.general(op&7|in.Rex&RexB<<3, writes)
		return
	case op&0xf8 == 0xb8:
		e.general(op&7|in.Rex&RexB<<3, writes)
		return
	case op >= 0xd8 && op <= 0xdf: // x87; fnstsw ax
		if op == 0xdf && in.ModRM == 0xe0 {
			e.use(general(RAX), writes|merges)
		}
		return
	}
	e.oneByteMore()
}

// arithmetic is add, or, adc, sbb, and, sub, xor, cmp in the forms of the first
// opcodes.
func (e *effect) arithmetic(n, form byte) {
	how := both
	if n == 7 { // cmp
		how = reads
	}
	e.byte = form&1 == 0
	if (n == 3 || n == 5 || n == 6) && form < 4 && e.same() && !e.byte {
		e.reg(writes) // zero or the carry, whatever it was
		return
	}
	switch form {
	case 0, 1:
		e.rm(how)
		e.reg(reads)
	case 2, 3:
		e.reg(how)
		e.rm(reads)
	case 4, 5:
		e.general(RAX, how)
	}
}

func (e *effect) oneByteMore() {
	in := e.in
	op := in.Op
	e.byte = op&1 == 0
	switch op {
	case 0x63: // movsxd
		e.byte = false
		e.reg(writes)
		e.rm(reads)
	case 0x69, 0x6b: // imul
		e.byte = false
		e.reg(writes)
		e.rm(reads)
	case 0x6c, 0x6d, 0x6e, 0x6f: // ins, outs
		e.strings(0, RDX)
	case 0x84, 0x85: // test
		e.rm(reads)
		e.reg(reads)
	case 0x86, 0x87: // xchg
		e.rm(both)
		e.reg(both)
	case 0x88, 0x89:
		e.rm(writes)
		e.reg(reads)
	case 0x8a, 0x8b:
		e.reg(writes)
		e.rm(reads)
	case 0x8c, 0x8f: // mov from a segment register, pop
		e.byte = false
		e.rm(writes)
	case 0x8d: // lea
		e.byte = false
		e.reg(writes)
	case 0x8e:
		e.byte = false
		e.rm(reads)
	case 0x98: // cbw, cwde, cdqe
		e.byte = false
		e.general(RAX, both)
	case 0x99: // cwd, cdq, cqo
		e.byte = false
		e.general(RAX, reads)
		e.general(RDX, writes)
	case 0x9e, 0xa8, 0xa9: // sahf, test
		e.use(general(RAX), reads)
	case 0x9f: // lahf
		e.use(general(RAX), writes|merges)
	case 0xa0, 0xa1:
		e.general(RAX, writes)
	case 0xa2, 0xa3:
		e.general(RAX, reads)
	case 0xa4, 0xa5, 0xa6, 0xa7: // movs, cmps
		e.strings(0, RSI, RDI)
	case 0xaa, 0xab: // stos
		e.strings(reads, RDI)
	case 0xac, 0xad: // lods
		e.strings(writes, RSI)
	case 0xae, 0xaf: // scas
		e.strings(reads, RDI)
	case 0xc0, 0xc1, 0xd0, 0xd1:
		e.rm(both)
	case 0xd2, 0xd3:
		e.rm(both)
		e.use(general(RCX), reads)
	case 0xc6, 0xc7:
		if in.Kind != Xbegin && in.ModRM != 0xf8 {
			e.rm(writes)
		}
	case 0xc8: // enter
		e.use(general(RBP), both)
	case 0xc9: // leave
		e.use(general(RBP), both)
	case 0xcd: // int
		e.implicit(reads, RAX, RCX, RDX, RBX, RSI, RDI, RBP)
		e.implicit(merges, RAX)
	case 0xd7: // xlat
		e.implicit(reads, RAX, RBX)
		e.implicit(merges, RAX)
	case 0xe0, 0xe1, 0xe2: // loop
		e.use(general(RCX), both)
	case 0xe3: // jrcxz
		e.use(general(RCX), reads)
	case 0xe4, 0xe5, 0xec, 0xed: // in
		e.general(RAX, writes)
		e.use(general(RDX), reads)
	case 0xe6, 0xe7, 0xee, 0xef: // out
		e.implicit(reads, RAX, RDX)
	case 0xf6, 0xf7:
		e.group3()
	case 0xfe:
		e.rm(both)
	case 0xff:
		e.group5()
	}
}

// strings is a string instruction that moves the given registers along, and uses
// RAX so. With rep nothing is certain to be written.
func (e *effect) strings(rax access, list ...byte) {
	rep := e.in.Prefix&(PrefixRep|PrefixRepne) != 0
	if rep {
		e.use(general(RCX), both)
		if rax&writes != 0 {
			rax |= merges
		}
	}
	if rax != 0 {
		e.general(RAX, rax)
	}
	for _, n := range list {
		e.use(general(n), both)
	}
	if e.in.Op >= 0x6c && e.in.Op <= 0x6f {
		e.use(general([2]byte{RDI, RSI}[e.in.Op>>1&1]), both)
	}
}

// group3 is test, not, neg, mul, imul, div, idiv.
func (e *effect) group3() {
	switch reg := e.in.reg(); {
	case reg < 2:
		e.rm(reads)
	case reg < 4:
		e.rm(both)
	default:
		e.rm(reads)
		e.general(RAX, both)
		if e.byte {
			e.use(general(RAX), merges)
		} else {
			e.general(RDX, writes)
			if reg >= 6 {
				e.use(general(RDX), reads)
			}
		}
	}
}

// group5 is inc, dec, call, jmp, push.
func (e *effect) group5() {
	switch e.in.reg() {
	case 0, 1:
		e.rm(both)
	case 2, 4, 6:
		if e.in.regForm() {
			e.use(general(e.rmNumber()), reads)
		}
	}
}

func (e *effect) twoByte() {
	in := e.in
	op := in.Op
	switch {
	case op&0xf0 == 0x40: // cmov
		e.reg(both)
		e.rm(reads)
	case op&0xf0 == 0x80:
	case op&0xf0 == 0x90: // set
		e.byte = true
		e.rm(writes)
	case op&0xf8 == 0xc8: // bswap
		e.general(op&7|in.Rex&RexB<<3, both)
	case op >= 0x10 && op <= 0x17 || op >= 0x28 && op <= 0x2f || op >= 0x50 && op <= 0x7f && op != 0x77:
		e.sse()
	case op >= 0xd0:
		e.sseHigh()
	default:
		e.twoByteGeneral()
	}
}

func (e *effect) twoByteGeneral() {
	in := e.in
	rep := in.Prefix&PrefixRep != 0
	switch in.Op {
	case 0x00: // sldt, str; lldt, ltr, verr, verw
		if in.reg() < 2 {
			e.rm(writes)
		} else {
			e.rm(reads)
		}
	case 0x01:
		e.group7()
	case 0x02, 0x03: // lar, lsl: only if the selector is good
		e.reg(merges)
		e.rm(reads)
	case 0x05, 0x34: // syscall, sysenter
		e.implicit(reads, RAX, RDI, RSI, RDX, R10, R8, R9)
		e.implicit(merges, RAX, RCX, R11)
	case 0x1e: // rdssp
		if rep && in.regForm() {
			e.rm(reads | merges)
		}
	case 0x20, 0x21:
		e.use(general(e.rmNumber()), writes)
	case 0x22, 0x23:
		e.use(general(e.rmNumber()), reads)
	case 0x30: // wrmsr
		e.implicit(reads, RAX, RCX, RDX)
	case 0x31: // rdtsc
		e.implicit(writes, RAX, RDX)
	case 0x32, 0x33: // rdmsr, rdpmc
		e.implicit(reads, RCX)
		e.implicit(writes, RAX, RDX)
	case 0xa2: // cpuid
		e.implicit(both, RAX, RCX)
		e.implicit(writes, RDX, RBX)
	case 0xa3: // bt
		e.rm(reads)
		e.reg(reads)
	case 0xab, 0xb3, 0xbb: // bts, btr, btc
		e.rm(both)
		e.reg(reads)
	case 0xa4, 0xac, 0xa5, 0xad: // shld, shrd
		e.rm(both)
		e.reg(reads)
		if in.Op&1 != 0 {
			e.use(general(RCX), reads)
		}
	case 0xae:
		e.group15()
	case 0xaf: // imul
		e.reg(both)
		e.rm(reads)
	case 0xb0, 0xb1: // cmpxchg
		e.byte = in.Op == 0xb0
		e.rm(both)
		e.reg(reads)
		e.general(RAX, reads|merges)
	case 0xb2, 0xb4, 0xb5: // lss, lfs, lgs
		e.reg(writes)
	case 0xb6, 0xb7, 0xbe, 0xbf: // movzx, movsx
		e.reg(writes)
		e.byte = in.Op&1 == 0
		e.rm(reads)
	case 0xb8: // popcnt
		e.reg(writes)
		e.rm(reads)
	case 0xbc, 0xbd: // bsf and bsr of 0 leave it; tzcnt, lzcnt do not
		if rep {
			e.reg(writes)
		} else {
			e.reg(reads | merges)
		}
		e.rm(reads)
	case 0xba:
		if in.reg() == 4 {
			e.rm(reads)
		} else {
			e.rm(both)
		}
	case 0xc0, 0xc1: // xadd
		e.byte = in.Op == 0xc0
		e.rm(both)
		e.reg(both)
	case 0xc2, 0xc6: // cmpps, shufps
		e.xreg(both)
		e.xrm(reads)
	case 0xc3: // movnti
		e.reg(reads)
	case 0xc4: // pinsrw
		if in.Prefix&PrefixOpSize != 0 {
			e.xreg(reads | merges)
		}
		if in.regForm() {
			e.use(general(e.rmNumber()), reads)
		}
	case 0xc5: // pextrw
		e.use(general(e.regNumber()), writes)
		if in.Prefix&PrefixOpSize != 0 {
			e.xrm(reads)
		}
	case 0xc7:
		e.group9()
	}
}

// group7 is what system instructions a program may use.
func (e *effect) group7() {
	if !e.in.regForm() {
		return
	}
	switch e.in.ModRM {
	case 0xc8, 0xfa: // monitor, monitorx
		e.implicit(reads, RAX, RCX, RDX)
	case 0xc9, 0xfb: // mwait, mwaitx
		e.implicit(reads, RAX, RCX, RBX)
	case 0xd0, 0xee: // xgetbv, rdpkru
		e.implicit(reads, RCX)
		e.implicit(writes, RAX, RDX)
	case 0xd1, 0xef: // xsetbv, wrpkru
		e.implicit(reads, RAX, RCX, RDX)
	case 0xf9: // rdtscp
		e.implicit(writes, RAX, RCX, RDX)
	case 0xfc: // clzero
		e.implicit(reads, RAX)
	default:
		if e.in.reg() == 4 { // smsw
			e.rm(writes)
		}
	}
}

// group9 is cmpxchg16b, xsavec, rdrand and others.
func (e *effect) group9() {
	in := e.in
	switch {
	case in.regForm():
		e.rm(merges)
	case in.reg() == 1:
		e.implicit(reads|merges, RAX, RDX)
		e.implicit(reads, RBX, RCX)
	default:
		e.implicit(reads, RAX, RDX)
	}
}

// group15 is fences, xsave, rdfsbase and others.
func (e *effect) group15() {
	in := e.in
	switch {
	case !in.regForm():
		if in.reg() >= 4 {
			e.implicit(reads, RAX, RDX)
		}
	case in.Prefix&PrefixRep != 0 && in.reg() < 2: // rdfsbase, rdgsbase
		e.rm(writes)
	case in.Prefix&(PrefixRep|PrefixRepne|PrefixOpSize) != 0:
		e.rm(reads)
		e.implicit(reads, RAX, RDX)
	}
}
