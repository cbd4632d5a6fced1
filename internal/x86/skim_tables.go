package x86

// skimEntry is what Skim needs of an opcode, and of ModRM, in the form that it
// adds up:
//
//	0-7   length of opcode, without a leading 0F, ModRM, displacement, immediate
//	8-10  bytes of immediate
//	14-15 the upper bits of 24 if it is a branch by 8 bits
//	16-   one bit each, see below
//	31    ModRM follows (the sign: it extends to a mask)
type skimEntry uint32

// Numbers of bits, and what skimChain asks about.
const (
	skimImm    = 8
	skimShift  = 11
	skimJump   = 16 // a direct jump
	skimCall   = 17 // a direct call
	skimImm32  = 18 // its last four bytes may be an address
	skimLea    = 21
	skimCloses = 22 // the code does not go on behind it
	skimAlways = 24 // for Decode in any case

	skimLength skimEntry = 0xff
	skimOther  skimEntry = 1 << 19 // it is not for the straight path,
	skimWide   skimEntry = 1 << 20 // nor with REX.W
	skimRIP    skimEntry = 1 << 23 // a RIP-relative operand
	skimModRM  skimEntry = 1 << 31

	skimMarked = 1<<skimJump | 1<<skimCall | 1<<skimCloses | 1<<skimAlways | skimRIP
)

// Entries of opcodes, those behind 0F from 256 on, and of ModRM. They follow from
// the tables of decode.
var (
	skimOpcodes = makeSkimOpcodes()
	skimModRMs  = makeSkimModRMs()
)

func makeSkimOpcodes() (all [512]skimEntry) {
	for op := range 256 {
		all[op], all[256+op] = skimOf(oneByte[op]), skimOf(twoByte[op])
	}
	all[0x8d] |= 1 << skimLea
	all[0x90] = skimOf(aNo) // nop or xchg
	// May use GS; far.
	for _, op := range [...]int{0x8e, 0xca, 0xcb, 0xcf, 256 + 0x01, 256 + 0x07, 256 + 0x35, 256 + 0xa9, 256 + 0xae, 256 + 0xb5} {
		all[op] = skimOther
	}
	return all
}

// skimOf is the entry of an opcode with the attribute a.
func skimOf(a attr) skimEntry {
	kind, imm := Kind(a>>48&0xff), skimEntry(a>>40&0xff)
	e := skimEntry(a&0xff) | imm<<skimImm
	if a&attrModRM != 0 {
		e |= skimModRM
	}
	if a&attrV != 0 {
		e |= skimWide
	}
	switch kind {
	case Plain, Nop:
		if imm == 4 {
			e |= 1 << skimImm32
		}
	case Ret:
		e |= 1 << skimCloses
	case Jcc, Jmp:
		e |= 1 << skimJump
		if kind == Jmp {
			e |= 1 << skimCloses
		}
		if imm == 1 {
			e |= 24 << skimShift
		}
	case Call:
		e |= 1 << skimCall
	default:
		return skimOther
	}
	if a&(attrEscape|attrLate) != 0 {
		return skimOther
	}
	return e
}

func makeSkimModRMs() (all [256]skimEntry) {
	for modRM := range all {
		all[modRM] = skimEntry(modRMAttr[modRM] & 0xff)
		if modRM&0xc7 == 0x05 {
			all[modRM] |= skimRIP
		}
	}
	return all
}
