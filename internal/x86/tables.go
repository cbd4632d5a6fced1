package x86

// attr is what an opcode says about the rest of its instruction, in the form
// that decode adds up: the low 7 bytes are the first 7 fields of Inst.
type attr uint64

const (
	attrLen      attr = 1 << 0
	attrDispOff  attr = 1 << 8
	attrDispSize attr = 1 << 16
	attrImmOff   attr = 1 << 24
	attrModRMOff attr = 1 << 32
	attrImm      attr = 1<<40 | attrLen // one byte of immediate
	attrKind     attr = 1 << 48
	attrByte          = attrLen | attrDispOff | attrImmOff | attrModRMOff // one byte before ModRM

	attrV      attr = 1 << 56 // the immediate has 8 bytes with REX.W
	attrZ      attr = 1 << 57 // the immediate has 2 bytes with a 16-bit operand
	attrLate   attr = 1 << 58 // the immediate is none: late
	attrPrefix attr = 1 << 59 // a prefix, not an opcode
	attrMap    attr = 1 << 60 // leads to another map
	attrGroup  attr = 1 << 61 // the next byte or a prefix decides: resolve
	attrEscape attr = 1 << 62 // not for the straight path; alone: not assigned
	attrModRM  attr = 1 << 63 // ModRM follows
)

// Short names for the tables: M ModRM, I imm8, W imm16, Z imm16/32, V imm16/32/64.
const (
	aNo  = attrByte
	aI   = aNo + 1*attrImm
	aW   = aNo + 2*attrImm
	aE   = aNo + 3*attrImm // enter: imm16, imm8
	a4   = aNo + 4*attrImm
	aZ   = a4 | attrZ
	aV   = a4 | attrZ | attrV
	aM   = aNo | attrModRM
	aMI  = aI | attrModRM
	aMZ  = aZ | attrModRM
	aM4  = a4 | attrModRM
	aMR  = aI | attrLate  // a ModRM whose mod is ignored
	a3D  = aMI | attrLate // a suffix in place of an immediate
	aG   = attrGroup | attrEscape
	aMG  = aM | aG
	aPfx = attrPrefix | attrEscape // and in the low bits the Prefix
	aSeg = aPfx | attr(PrefixSegOther)
	aREX = aPfx | attr(PrefixREX)
	aEsc = attrMap | attrEscape
	aBad = attrEscape

	aJc  = aI + attr(Jcc)*attrKind
	aJcZ = a4 + attr(Jcc)*attrKind
	aLp  = aI + attr(Loop)*attrKind
	aJp  = aI + attr(Jmp)*attrKind
	aJpZ = a4 + attr(Jmp)*attrKind
	aCl  = a4 + attr(Call)*attrKind
	aRt  = aNo + attr(Ret)*attrKind
	aRtW = aW + attr(Ret)*attrKind
	aTr  = aNo + attr(Trap)*attrKind
	aMTr = aM + attr(Trap)*attrKind
	aSy  = aNo + attr(Syscall)*attrKind
	aNop = aNo + attr(Nop)*attrKind
	aMNp = aM + attr(Nop)*attrKind
)

// oneByte: SDM vol. 2, table A-2.
var oneByte = [256]attr{
	/* 00 */ aM, aM, aM, aM, aI, aZ, aBad, aBad, aM, aM, aM, aM, aI, aZ, aBad, aEsc,
	/* 10 */ aM, aM, aM, aM, aI, aZ, aBad, aBad, aM, aM, aM, aM, aI, aZ, aBad, aBad,
	/* 20 */ aM, aM, aM, aM, aI, aZ, aSeg, aBad, aM, aM, aM, aM, aI, aZ, aSeg, aBad,
	/* 30 */ aM, aM, aM, aM, aI, aZ, aSeg, aBad, aM, aM, aM, aM, aI, aZ, aSeg, aBad,
	/* 40 */ aREX, aREX, aREX, aREX, aREX, aREX, aREX, aREX, aREX, aREX, aREX, aREX, aREX, aREX, aREX, aREX,
	/* 50 */ aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo,
	/* 60 */ aBad, aBad, aEsc, aM, aPfx | attr(PrefixFS), aPfx | attr(PrefixGS), aPfx | attr(PrefixOpSize), aPfx | attr(PrefixAddrSize), aZ, aMZ, aI, aMI, aNo, aNo, aNo, aNo,
	/* 70 */ aJc, aJc, aJc, aJc, aJc, aJc, aJc, aJc, aJc, aJc, aJc, aJc, aJc, aJc, aJc, aJc,
	/* 80 */ aMI, aMZ, aBad, aMI, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aEsc,
	/* 90 */ aG, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aBad, aNo, aNo, aNo, aNo, aNo,
	/* A0 */ aG, aG, aG, aG, aNo, aNo, aNo, aNo, aI, aZ, aNo, aNo, aNo, aNo, aNo, aNo,
	/* B0 */ aI, aI, aI, aI, aI, aI, aI, aI, aV, aV, aV, aV, aV, aV, aV, aV,
	/* C0 */ aMI, aMI, aRtW, aRt, aEsc, aEsc, aMI | aG, aMZ | aG, aE, aNo, aRtW, aRt, aTr, aG, aBad, aRt,
	/* D0 */ aM, aM, aM, aM, aBad, aBad, aBad, aNo, aM, aM, aM, aM, aM, aM, aM, aM,
	/* E0 */ aLp, aLp, aLp, aLp, aI, aI, aI, aI, aCl, aJpZ, aBad, aJp, aNo, aNo, aNo, aNo,
	/* F0 */ aPfx | attr(PrefixLock), aTr, aPfx | attr(PrefixRepne), aPfx | attr(PrefixRep), aTr, aNo, aMI | aG, aMZ | aG, aNo, aNo, aNo, aNo, aNo, aNo, aMG, aMG,
}

// twoByte: 0F xx, SDM vol. 2, table A-3; APM vol. 3, table A-3 for 78, 79, 0D,
// 0E. A6 and A7 are VIA PadLock.
var twoByte = [256]attr{
	/* 00 */ aMG, aM, aM, aM, aBad, aSy, aNo, aRt, aNo, aNo, aBad, aTr, aBad, aM, aNo, a3D,
	/* 10 */ aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aMG, aMNp,
	/* 20 */ aMR, aMR, aMR, aMR, aBad, aBad, aBad, aBad, aM, aM, aM, aM, aM, aM, aM, aM,
	/* 30 */ aNo, aNo, aNo, aNo, aSy, aRt, aBad, aNo, aEsc, aBad, aEsc, aBad, aBad, aBad, aBad, aBad,
	/* 40 */ aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM,
	/* 50 */ aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM,
	/* 60 */ aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM,
	/* 70 */ aMI, aMI | aG, aMI | aG, aMI | aG, aM, aM, aM, aNo, aMG, aMG, aBad, aBad, aM, aM, aM, aM,
	/* 80 */ aJcZ, aJcZ, aJcZ, aJcZ, aJcZ, aJcZ, aJcZ, aJcZ, aJcZ, aJcZ, aJcZ, aJcZ, aJcZ, aJcZ, aJcZ, aJcZ,
	/* 90 */ aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM,
	/* A0 */ aNo, aNo, aNo, aM, aMI, aM, aMG, aMG, aNo, aNo, aTr, aM, aMI, aM, aM, aM,
	/* B0 */ aM, aM, aM, aM, aM, aM, aM, aM, aMG, aMTr, aMI | aG, aM, aM, aM, aM, aM,
	/* C0 */ aM, aM, aMI, aM, aMI, aMI, aMI, aM, aNo, aNo, aNo, aNo, aNo, aNo, aNo, aNo,
	/* D0 */ aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM,
	/* E0 */ aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM,
	/* F0 */ aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aM, aMTr,
}

// What ModRM adds: itself and a displacement of n bytes (m), and a SIB byte (s).
const (
	m0 = uint32(attrLen | attrDispOff | attrImmOff)
	m1 = m0 + uint32(attrLen|attrDispSize|attrImmOff)
	m4 = m0 + 4*uint32(attrLen|attrDispSize|attrImmOff)
	s0 = m0 + m0
	s1 = m0 + m1
	s4 = m0 + m4
)

// modRMAttr: SDM vol. 2, tables 2-2 and 2-3.
var modRMAttr = [256]uint32{
	/* 00 */ m0, m0, m0, m0, s0, m4, m0, m0, m0, m0, m0, m0, s0, m4, m0, m0,
	/* 10 */ m0, m0, m0, m0, s0, m4, m0, m0, m0, m0, m0, m0, s0, m4, m0, m0,
	/* 20 */ m0, m0, m0, m0, s0, m4, m0, m0, m0, m0, m0, m0, s0, m4, m0, m0,
	/* 30 */ m0, m0, m0, m0, s0, m4, m0, m0, m0, m0, m0, m0, s0, m4, m0, m0,
	/* 40 */ m1, m1, m1, m1, s1, m1, m1, m1, m1, m1, m1, m1, s1, m1, m1, m1,
	/* 50 */ m1, m1, m1, m1, s1, m1, m1, m1, m1, m1, m1, m1, s1, m1, m1, m1,
	/* 60 */ m1, m1, m1, m1, s1, m1, m1, m1, m1, m1, m1, m1, s1, m1, m1, m1,
	/* 70 */ m1, m1, m1, m1, s1, m1, m1, m1, m1, m1, m1, m1, s1, m1, m1, m1,
	/* 80 */ m4, m4, m4, m4, s4, m4, m4, m4, m4, m4, m4, m4, s4, m4, m4, m4,
	/* 90 */ m4, m4, m4, m4, s4, m4, m4, m4, m4, m4, m4, m4, s4, m4, m4, m4,
	/* A0 */ m4, m4, m4, m4, s4, m4, m4, m4, m4, m4, m4, m4, s4, m4, m4, m4,
	/* B0 */ m4, m4, m4, m4, s4, m4, m4, m4, m4, m4, m4, m4, s4, m4, m4, m4,
	/* C0 */ m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0,
	/* D0 */ m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0,
	/* E0 */ m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0,
	/* F0 */ m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0, m0,
}
