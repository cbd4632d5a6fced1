package x86

// These prefixes hold the bits of REX, the mandatory prefix (pp) and the opcode
// map:
//
//	C5  RvvvvLpp                    map 0F
//	C4  RXBmmmmm WvvvvLpp
//	8F  RXBmmmmm WvvvvLpp           mmmmm >= 8, else it is pop
//	62  RXBR0mmm Wvvvv1pp zLLbVaaa
//
// R, X and B are inverted. SDM vol. 2, 2.3 and 2.7; APM vol. 3, 1.9.

// notBeforeVEX are the prefixes that must not stand before these.
const notBeforeVEX = PrefixOpSize | PrefixRep | PrefixRepne | PrefixLock | PrefixREX

var ppPrefix = [4]Prefix{0, PrefixOpSize, PrefixRep, PrefixRepne}

func (in *Inst) escapeVEX(p *[window]byte, at uint) (uint, attr) {
	if in.Prefix&notBeforeVEX != 0 {
		return at + 1, aBad
	}
	in.Enc = EncVEX
	v, w := p[(at+1)&15], p[(at+2)&15]
	if in.Op == 0xc5 {
		in.Rex = ^v >> 5 & RexR
		return in.mapOpcode(p, at+2, Map0F, v)
	}
	in.Rex = ^v>>5&7 | w>>4&RexW
	return in.mapOpcode(p, at+3, Map(v&31), w)
}

func (in *Inst) escapeEVEX(p *[window]byte, at uint) (uint, attr) {
	v, w := p[(at+1)&15], p[(at+2)&15]
	switch {
	case in.Prefix&notBeforeVEX != 0:
		return at + 1, aBad
	case v&8 != 0:
		return at + 2, aBad
	case w&4 == 0:
		return at + 3, aBad
	}
	in.Enc = EncEVEX
	in.Rex = ^v>>5&7 | w>>4&RexW
	return in.mapOpcode(p, at+4, Map(v&7), w)
}

// escapeXOP decides about 8F, which is also pop.
func (in *Inst) escapeXOP(p *[window]byte, at uint) (uint, attr) {
	v, w := p[(at+1)&15], p[(at+2)&15]
	switch {
	case v&31 < 8 && v>>3&7 == 0: // pop
		return at, aM
	case v&31 < 8 || in.Prefix&notBeforeVEX != 0:
		return at + 2, aBad
	case w&3 != 0:
		return at + 3, aBad
	}
	in.Enc = EncXOP
	in.Rex = ^v>>5&7 | w>>4&RexW
	return in.mapOpcode(p, at+3, Map(v&31), w)
}

// mapOpcode reads the opcode p[at] in map m; the low bits of w are pp.
func (in *Inst) mapOpcode(p *[window]byte, at uint, m Map, w byte) (uint, attr) {
	in.Prefix |= ppPrefix[w&3]
	in.Map, in.Op = m, p[at&15]
	return at, in.gridAttr()
}

// gridAttr is the attribute of an opcode of the maps in tables_grid.go.
func (in *Inst) gridAttr() attr {
	switch in.gridClass() {
	case 'm':
		return aM
	case 'i':
		return aMI
	case 'd':
		return aM4
	case 'g':
		return aMI | aG
	case '-':
		return aNo
	}
	return aBad
}
