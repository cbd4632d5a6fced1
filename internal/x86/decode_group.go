package x86

// resolve settles the attribute of an opcode of which the next byte (already in
// ModRM) or a prefix is part. SDM vol. 2, table A-6.
func (in *Inst) resolve(a attr) attr {
	if in.Map == MapLegacy {
		return in.resolveOneByte(a)
	}
	return in.resolve0F(a)
}

func (in *Inst) resolveOneByte(a attr) attr {
	reg := in.reg()
	switch in.Op {
	case 0x90: // xchg r8 and pause are not nop
		if in.Rex&RexB == 0 && in.Prefix&PrefixRep == 0 {
			return aNop
		}
		return aNo
	case 0xa0, 0xa1, 0xa2, 0xa3: // mov between rax and an absolute address
		if in.Prefix&PrefixAddrSize != 0 {
			return a4 | attrLate
		}
		return a4 + 4*attrImm | attrLate
	case 0xcd: // int n: the kernel's old system call gate, or a trap
		if in.ModRM == 0x80 {
			return aI + attr(Syscall)*attrKind
		}
		return aI + attr(Trap)*attrKind
	case 0xc6: // mov, xabort
		return assigned(reg == 0 || in.ModRM == 0xf8, a)
	case 0xc7: // mov, xbegin
		if in.ModRM == 0xf8 {
			a += attr(Xbegin) * attrKind
		}
		return assigned(reg == 0 || in.ModRM == 0xf8, a)
	case 0xf6, 0xf7: // test has an immediate; not, neg, mul, imul, div, idiv
		if reg > 1 {
			return aM
		}
	case 0xfe: // inc, dec
		return assigned(reg < 2, a)
	case 0xff:
		return in.resolveFF(a)
	}
	return assigned(true, a)
}

// resolveFF is inc, dec, call, far call, jmp, far jmp, push.
func (in *Inst) resolveFF(a attr) attr {
	mem := !in.regForm()
	switch in.reg() {
	case 2, 3:
		return assigned(in.reg() == 2 || mem, a+attr(CallInd)*attrKind)
	case 4, 5:
		return assigned(in.reg() == 4 || mem, a+attr(JmpInd)*attrKind)
	}
	return assigned(in.reg() != 7, a)
}

func (in *Inst) resolve0F(a attr) attr {
	reg := in.reg()
	rep := in.Prefix&PrefixRep != 0
	switch in.Op {
	case 0x00: // sldt and others; lkgs
		return assigned(reg < 6 || reg == 6 && in.Prefix&PrefixRepne != 0, a)
	case 0x1e: // reserved NOPs; endbr64, endbr32
		if rep && in.ModRM&0xfe == 0xfa {
			a += attr(Endbr) * attrKind
		}
	case 0x71, 0x72, 0x73:
		return assigned(in.shiftAssigned(), a)
	case 0x78: // vmread; extrq, insertq with two immediates
		if in.Prefix&(PrefixOpSize|PrefixRepne) != 0 {
			return assigned(in.regForm(), aW|attrModRM)
		}
		return assigned(!rep, a)
	case 0x79: // vmwrite, extrq, insertq
		return assigned(!rep, a)
	case 0xa6, 0xa7: // PadLock
		return assigned(in.ModRM&0xc7 == 0xc0, a)
	case 0xb8: // popcnt
		return assigned(rep, a)
	case 0xba: // bt, bts, btr, btc
		return assigned(reg >= 4, a)
	}
	return assigned(true, a)
}

// shiftAssigned reports the assigned members of groups 12 to 14, vector shifts
// by an immediate. Only EVEX has memory operands and the rotates 72 /0 and /1.
func (in *Inst) shiftAssigned() bool {
	members := [3]byte{0b0101_0100, 0b0101_0100, 0b1100_1100}[(in.Op-0x71)%3]
	if in.Enc == EncEVEX && in.Op == 0x72 {
		members |= 0b11
	}
	return members>>in.reg()&1 != 0 && (in.regForm() || in.Enc == EncEVEX)
}

func assigned(ok bool, a attr) attr {
	if !ok {
		return aBad
	}
	return a &^ attrEscape
}

// assigned3DNow reports the 3DNow! suffixes. APM vol. 3, table A-13.
func assigned3DNow(suffix byte) bool {
	switch suffix {
	case 0x0c, 0x0d, 0x1c, 0x1d, 0x8a, 0x8e, 0x90, 0x94, 0x96, 0x97, 0x9a, 0x9e,
		0xa0, 0xa4, 0xa6, 0xa7, 0xaa, 0xae, 0xb0, 0xb4, 0xb6, 0xb7, 0xbb, 0xbf:
		return true
	}
	return false
}
