package x86

// Grids of the maps in which an opcode says little: one letter for each, rows
// as in the manuals. A constant string needs no initialisation and no bounds
// check.
//
//	.  not assigned     m  ModRM            i  ModRM, imm8
//	-  nothing          d  ModRM, imm32     g  ModRM, imm8, group

// gridClass is the letter of in.Op in in.Map.
func (in *Inst) gridClass() byte {
	op := in.Op
	switch in.Enc {
	case EncVEX:
		switch in.Map {
		case Map0F:
			return gridVEX1[op]
		case Map0F38:
			return gridVEX2[op]
		case Map0F3A:
			return gridVEX3[op]
		}
	case EncEVEX:
		switch in.Map {
		case Map0F:
			return gridEVEX1[op]
		case Map0F38:
			return gridEVEX2[op]
		case Map0F3A:
			return gridEVEX3[op]
		case MapEVEX5:
			return gridEVEX5[op]
		case MapEVEX6:
			return gridEVEX6[op]
		}
	case EncXOP:
		switch in.Map {
		case MapXOP8:
			return gridXOP8[op]
		case MapXOP9:
			return gridXOP9[op]
		case MapXOPA:
			return gridXOPA[op]
		}
	default:
		if in.Map == Map0F3A {
			return grid0F3A[op]
		}
		return grid0F38[op]
	}
	return '.'
}

// SDM vol. 2, tables.
const grid0F38 = "" +
	/* 00 */ "mmmmmmmmmmmm...." +
	/* 10 */ "m...mm.m....mmm." +
	/* 20 */ "mmmmmm..mmmm...." +
	/* 30 */ "mmmmmm.mmmmmmmmm" +
	/* 40 */ "mm.............." +
	/* 50 */ "................" +
	/* 60 */ "................" +
	/* 70 */ "................" +
	/* 80 */ "mmm............." +
	/* 90 */ "................" +
	/* A0 */ "................" +
	/* B0 */ "................" +
	/* C0 */ "........mmmmmm.m" +
	/* D0 */ "........m..mmmmm" +
	/* E0 */ "................" +
	/* F0 */ "mm...mm.mmmmm..."

const grid0F3A = "" +
	/* 00 */ "........iiiiiiii" +
	/* 10 */ "....iiii........" +
	/* 20 */ "iii............." +
	/* 30 */ "................" +
	/* 40 */ "iii.i..........." +
	/* 50 */ "................" +
	/* 60 */ "iiii............" +
	/* 70 */ "................" +
	/* 80 */ "................" +
	/* 90 */ "................" +
	/* A0 */ "................" +
	/* B0 */ "................" +
	/* C0 */ "............i.ii" +
	/* D0 */ "...............i" +
	/* E0 */ "................" +
	/* F0 */ "i..............."

// SDM vol. 2, tables, entries with "v" or VEX; FMA4 from APM vol. 4;
// SHA512, SM3, SM4, AVX-VNNI-INT16 and AMX-COMPLEX from Intel's Instruction Set
// Extensions reference.
const gridVEX1 = "" +
	/* 00 */ "................" +
	/* 10 */ "mmmmmmmm........" +
	/* 20 */ "........mmmmmmmm" +
	/* 30 */ "................" +
	/* 40 */ ".mm.mmmm..mm...." +
	/* 50 */ "mmmmmmmmmmmmmmmm" +
	/* 60 */ "mmmmmmmmmmmmmmmm" +
	/* 70 */ "igggmmm-....mmmm" +
	/* 80 */ "................" +
	/* 90 */ "mmmm....mm......" +
	/* A0 */ "..............m." +
	/* B0 */ "................" +
	/* C0 */ "..i.iii........." +
	/* D0 */ "mmmmmmmmmmmmmmmm" +
	/* E0 */ "mmmmmmmmmmmmmmmm" +
	/* F0 */ "mmmmmmmmmmmmmmm."

const gridVEX2 = "" +
	/* 00 */ "mmmmmmmmmmmmmmmm" +
	/* 10 */ "...m..mmmmm.mmm." +
	/* 20 */ "mmmmmm..mmmmmmmm" +
	/* 30 */ "mmmmmmmmmmmmmmmm" +
	/* 40 */ "mm...mmm.m.m...." +
	/* 50 */ "mmmm....mmm.m.m." +
	/* 60 */ "............m..." +
	/* 70 */ "..m.....mm......" +
	/* 80 */ "............m.m." +
	/* 90 */ "mmmm..mmmmmmmmmm" +
	/* A0 */ "......mmmmmmmmmm" +
	/* B0 */ "mm..mmmmmmmmmmmm" +
	/* C0 */ "...........mmm.m" +
	/* D0 */ "..mm......mmmmmm" +
	/* E0 */ "mmmmmmmmmmmmmmmm" +
	/* F0 */ "..mm.mmm........"

const gridVEX3 = "" +
	/* 00 */ "iii.iii.iiiiiiii" +
	/* 10 */ "....iiiiii...i.." +
	/* 20 */ "iii............." +
	/* 30 */ "iiii....ii......" +
	/* 40 */ "iii.i.i.iiiii..." +
	/* 50 */ "............iiii" +
	/* 60 */ "iiii....iiiiiiii" +
	/* 70 */ "........iiiiiiii" +
	/* 80 */ "................" +
	/* 90 */ "................" +
	/* A0 */ "................" +
	/* B0 */ "................" +
	/* C0 */ "..............ii" +
	/* D0 */ "..............ii" +
	/* E0 */ "................" +
	/* F0 */ "i..............."

// SDM vol. 2, chapter 5, entries with EVEX.
const gridEVEX1 = "" +
	/* 00 */ "................" +
	/* 10 */ "mmmmmmmm........" +
	/* 20 */ "........mmmmmmmm" +
	/* 30 */ "................" +
	/* 40 */ "................" +
	/* 50 */ ".m..mmmmmmmmmmmm" +
	/* 60 */ "mmmmmmmmmmmmmmmm" +
	/* 70 */ "igggmmm.mmmm..mm" +
	/* 80 */ "................" +
	/* 90 */ "................" +
	/* A0 */ "................" +
	/* B0 */ "................" +
	/* C0 */ "..i.iii........." +
	/* D0 */ ".mmmmmm.mmmmmmmm" +
	/* E0 */ "mmmmmmmmmmmmmmmm" +
	/* F0 */ ".mmmmmm.mmmmmmm."

const gridEVEX2 = "" +
	/* 00 */ "m...m......mmm.." +
	/* 10 */ "mmmmmmm.mmmmmmmm" +
	/* 20 */ "mmmmmmmmmmmmmm.." +
	/* 30 */ "mmmmmmmmmmmmmmmm" +
	/* 40 */ "m.mmmmmm....mmmm" +
	/* 50 */ "mmmmmm..mmmm...." +
	/* 60 */ "..mmmmm.m......." +
	/* 70 */ "mmmm.mmmmmmmmmmm" +
	/* 80 */ "...m....mmmm.m.m" +
	/* 90 */ "mmmm..mmmmmmmmmm" +
	/* A0 */ "mmmm..mmmmmmmmmm" +
	/* B0 */ "....mmmmmmmmmmmm" +
	/* C0 */ "....m.mmm.mmmm.m" +
	/* D0 */ "............mmmm" +
	/* E0 */ "................" +
	/* F0 */ "................"

const gridEVEX3 = "" +
	/* 00 */ "ii.iii..iiii...i" +
	/* 10 */ "....iiiiiiii.iii" +
	/* 20 */ "iiii.iii........" +
	/* 30 */ "........iiii..ii" +
	/* 40 */ "..iii..........." +
	/* 50 */ "ii..iiii........" +
	/* 60 */ "......ii........" +
	/* 70 */ "iiii............" +
	/* 80 */ "................" +
	/* 90 */ "................" +
	/* A0 */ "................" +
	/* B0 */ "................" +
	/* C0 */ "..i...........ii" +
	/* D0 */ "................" +
	/* E0 */ "................" +
	/* F0 */ "................"

const gridEVEX5 = "" +
	/* 00 */ "................" +
	/* 10 */ "mm...........m.." +
	/* 20 */ "..........m.mmmm" +
	/* 30 */ "................" +
	/* 40 */ "................" +
	/* 50 */ ".m......mmmmmmmm" +
	/* 60 */ "..............m." +
	/* 70 */ "........mmmmmmm." +
	/* 80 */ "................" +
	/* 90 */ "................" +
	/* A0 */ "................" +
	/* B0 */ "................" +
	/* C0 */ "................" +
	/* D0 */ "................" +
	/* E0 */ "................" +
	/* F0 */ "................"

const gridEVEX6 = "" +
	/* 00 */ "................" +
	/* 10 */ "...m............" +
	/* 20 */ "............mm.." +
	/* 30 */ "................" +
	/* 40 */ "..mm........mmmm" +
	/* 50 */ "......mm........" +
	/* 60 */ "................" +
	/* 70 */ "................" +
	/* 80 */ "................" +
	/* 90 */ "......mmmmmmmmmm" +
	/* A0 */ "......mmmmmmmmmm" +
	/* B0 */ "......mmmmmmmmmm" +
	/* C0 */ "................" +
	/* D0 */ "......mm........" +
	/* E0 */ "................" +
	/* F0 */ "................"

// APM vol. 3, tables.
const gridXOP8 = "" +
	/* 00 */ "................" +
	/* 10 */ "................" +
	/* 20 */ "................" +
	/* 30 */ "................" +
	/* 40 */ "................" +
	/* 50 */ "................" +
	/* 60 */ "................" +
	/* 70 */ "................" +
	/* 80 */ ".....iii......ii" +
	/* 90 */ ".....iii......ii" +
	/* A0 */ "..ii..i........." +
	/* B0 */ "......i........." +
	/* C0 */ "iiii........iiii" +
	/* D0 */ "................" +
	/* E0 */ "............iiii" +
	/* F0 */ "................"

const gridXOP9 = "" +
	/* 00 */ ".mm............." +
	/* 10 */ "..m............." +
	/* 20 */ "................" +
	/* 30 */ "................" +
	/* 40 */ "................" +
	/* 50 */ "................" +
	/* 60 */ "................" +
	/* 70 */ "................" +
	/* 80 */ "mmmm............" +
	/* 90 */ "mmmmmmmmmmmm...." +
	/* A0 */ "................" +
	/* B0 */ "................" +
	/* C0 */ ".mmm..mm...m...." +
	/* D0 */ ".mmm..mm...m...." +
	/* E0 */ ".mmm............" +
	/* F0 */ "................"

const gridXOPA = "" +
	/* 00 */ "................" +
	/* 10 */ "d.d............." +
	/* 20 */ "................" +
	/* 30 */ "................" +
	/* 40 */ "................" +
	/* 50 */ "................" +
	/* 60 */ "................" +
	/* 70 */ "................" +
	/* 80 */ "................" +
	/* 90 */ "................" +
	/* A0 */ "................" +
	/* B0 */ "................" +
	/* C0 */ "................" +
	/* D0 */ "................" +
	/* E0 */ "................" +
	/* F0 */ "................"
