package x86

// Masks. Of an element whose bit is not set no byte is read or written. That is so of moves and of
// what works element by element; what a mask only leaves out of the result is not here, as shuffles.
// SDM vol. 2, 2.8 (exception classes E2 to E6 without NF).

// masked says of an operand with a mask what it is, if it follows from the mask.
func (in *Inst) masked(code []byte, f *Form) bool {
	c := facts{in: in, code: code}
	before := code[in.opcodeAt()-1] // of VEX and EVEX: the last byte of the prefix
	switch {
	case f.Flags&OperandVSIB != 0:
		f.Way, f.Element = FormLanes, byte(f.Count)
	case in.Enc == EncLegacy: // maskmovdqu; that of MMX has a mask in one of its registers
		f.Way, f.Element, f.Register = FormMasked, 1, in.ModRM&7|in.Rex&RexB<<3
		f.Vector = true
		return in.Prefix&PrefixOpSize != 0
	case in.Enc == EncVEX && in.Map == Map0F: // vmaskmovdqu
		f.Way, f.Element, f.Register = FormMasked, 1, in.ModRM&7|in.Rex&RexB<<3
		f.Vector = true
		return true
	case in.Enc == EncVEX:
		f.Way, f.Element = FormMasked, byte(c.byW())
		switch in.Op {
		case 0x2c, 0x2e: // vmaskmovps
			f.Element = 4
		case 0x2d, 0x2f:
			f.Element = 8
		}
	default:
		e, way := c.maskElement()
		if before&0x10 != 0 || way == FormAny { // one element for all
			if way == FormPacked || e == 0 || f.Size != e {
				return false
			}
			way, e = FormAny, c.lanes()/e
		}
		if e == 0 {
			return false
		}
		f.Way, f.Element = way, byte(e)
	}
	if in.Enc == EncVEX {
		f.Register, f.Vector = before>>3&15^15, true
	} else {
		f.Register = before & 7
	}
	return true
}

// maskElement is the bytes of an element of the operand in memory of an instruction with EVEX, 0
// if a bit does not stand for one.
func (f *facts) maskElement() (e uint16, way FormWay) {
	in := f.in
	d, b := f.byW(), uint16(1)
	if in.Rex&RexW != 0 {
		b = 2
	}
	float, spread := f.by(4, 8, 4, 8), [...]uint16{1, 1, 1, 2, 2, 4}
	op := in.Op
	switch in.Map {
	case Map0F:
		switch op {
		case 0x10, 0x11, 0x28, 0x29, 0x51, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x5c, 0x5d, 0x5e, 0x5f, 0xc2:
			return float, FormMasked
		case 0x5b:
			return f.by(d, 4, 4, 0), FormMasked
		case 0x6f, 0x7f:
			return f.by(0, d, d, b), FormMasked
		case 0x64, 0x74, 0xd8, 0xdc, 0xe8, 0xec, 0xda, 0xde, 0xe0, 0xf8, 0xfc:
			return 1, FormMasked
		case 0x65, 0x75, 0xd9, 0xdd, 0xe9, 0xed, 0xea, 0xee, 0xe3, 0xf9, 0xfd, 0xd5, 0xe4, 0xe5:
			return 2, FormMasked
		case 0x66, 0x76, 0xfa, 0xfe:
			return 4, FormMasked
		case 0xd4, 0xf4, 0xfb:
			return 8, FormMasked
		case 0xdb, 0xdf, 0xeb, 0xef:
			return d, FormMasked
		}
	case Map0F38:
		form := op & 15
		if h := op >> 4; h >= 1 && h <= 3 && form < 6 && (in.Prefix&PrefixRep != 0 || h >= 2) {
			return spread[form], FormMasked
		}
		switch op {
		case 0x1c, 0x38, 0x3c:
			return 1, FormMasked
		case 0x10, 0x11, 0x12, 0x13, 0x1d, 0x3a, 0x3e:
			return 2, FormMasked
		case 0x1e:
			return 4, FormMasked
		case 0x1f, 0x28, 0x29, 0x37:
			return 8, FormMasked
		case 0x26, 0x66:
			return b, FormMasked
		case 0x27, 0x39, 0x3b, 0x3d, 0x3f, 0x40, 0x64, 0x65, 0x45, 0x46, 0x47, 0x42, 0x2c, 0x4c, 0x4e:
			return d, FormMasked
		case 0x88, 0x89, 0x8a, 0x8b:
			return d, FormPacked
		case 0x62, 0x63:
			return b, FormPacked
		case 0x18, 0x58:
			return 4, FormAny
		case 0x59:
			return 8, FormAny
		case 0x19:
			return 8, FormAny
		case 0x78:
			return 1, FormAny
		case 0x79:
			return 2, FormAny
		}
		if h := op >> 4; (h == 9 || h == 10 || h == 11) && form >= 6 && !(in.Prefix&PrefixRepne != 0) && op != 0xb4 && op != 0xb5 {
			return d, FormMasked
		}
	case Map0F3A:
		switch op {
		case 0x1e, 0x1f, 0x25, 0x19, 0x1b, 0x39, 0x3b:
			return d, FormMasked
		case 0x3e, 0x3f:
			return b, FormMasked
		case 0x1d:
			return 2, FormMasked
		}
	}
	return 0, 0
}
