package elfscan

// regRSP is the stack pointer's DWARF number (psABI, figure 3.36).
const regRSP = 7

// cfa is the rule for the canonical frame address at some place in a function.
type cfa struct {
	reg    uint64
	offset int64
	expr   bool // given by an expression
}

// startKind is what the rule at the start of an FDE means.
type startKind uint8

const (
	// startPart is a rule of code in the middle of a function.
	startPart startKind = iota
	// startEntry is rsp+8, the entry of a function: the call has pushed the
	// return address, nothing else has moved the stack.
	startEntry
	// startPLT is rsp+16, where the first PLT entry starts: a PLT entry has
	// pushed the index of the relocation. Parts may start so, too.
	startPLT
	// startResolver is rsp+24, where _dl_runtime_resolve starts: the first
	// PLT entry has pushed the object, too. Parts may start so, too.
	startResolver
)

// kind tells what the rule means at the start of an FDE.
func (r cfa) kind() startKind {
	switch r {
	case cfa{reg: regRSP, offset: 8}:
		return startEntry
	case cfa{reg: regRSP, offset: 16}:
		return startPLT
	case cfa{reg: regRSP, offset: 24}:
		return startResolver
	}
	return startPart
}

// Call frame instructions (DWARF 5, 7.24; the GNU ones from LSB Core 5.0,
// 10.4). The first three hold an operand in their low six bits.
const (
	opAdvanceLoc = 0x40
	opOffset     = 0x80
	opRestore    = 0xc0

	opSetLoc           = 0x01
	opAdvanceLoc1      = 0x02
	opAdvanceLoc2      = 0x03
	opAdvanceLoc4      = 0x04
	opRememberState    = 0x0a
	opRestoreState     = 0x0b
	opDefCFA           = 0x0c
	opDefCFARegister   = 0x0d
	opDefCFAOffset     = 0x0e
	opDefCFAExpression = 0x0f
	opDefCFASf         = 0x12
	opDefCFAOffsetSf   = 0x13
)

// operands tells what follows the instructions that do not touch the CFA:
// u an unsigned, s a signed LEB128 number, b a block with its length before.
var operands = [0x40]string{
	0x05: "uu", // offset_extended
	0x06: "u",  // restore_extended
	0x07: "u",  // undefined
	0x08: "u",  // same_value
	0x09: "uu", // register
	0x10: "ub", // expression
	0x11: "us", // offset_extended_sf
	0x14: "uu", // val_offset
	0x15: "us", // val_offset_sf
	0x16: "ub", // val_expression
	0x2e: "u",  // GNU_args_size
	0x2f: "uu", // GNU_negative_offset_extended
}

// plain tells the instructions without operands: nop, remember_state,
// restore_state. The latter two change nothing before the first advance.
func plain(op uint8) bool { return op == 0x00 || op == opRememberState || op == opRestoreState }

// run executes the call frame instructions in c up to the first that moves on
// from the first address, and returns the rule that holds there.
func (r cfa) run(c *cursor, dataAlign int64) cfa {
	for !c.done() && !c.bad {
		op := c.u8()
		switch op & 0xc0 {
		case opAdvanceLoc:
			if op&0x3f != 0 {
				return r
			}
			continue
		case opOffset:
			c.uleb()
			continue
		case opRestore:
			continue
		}
		switch op {
		case opSetLoc, opAdvanceLoc1, opAdvanceLoc2, opAdvanceLoc4:
			return r
		case opDefCFA:
			r = cfa{reg: c.uleb(), offset: int64(c.uleb())}
		case opDefCFASf:
			r = cfa{reg: c.uleb(), offset: c.sleb() * dataAlign}
		case opDefCFARegister:
			r.reg = c.uleb()
		case opDefCFAOffset:
			r.offset = int64(c.uleb())
		case opDefCFAOffsetSf:
			r.offset = c.sleb() * dataAlign
		case opDefCFAExpression:
			c.take(c.uleb())
			r = cfa{expr: true}
		default:
			if !plain(op) && !c.skip(operands[op]) {
				return r
			}
		}
	}
	return r
}

// skip passes over operands; false if the instruction is unknown.
func (c *cursor) skip(operands string) bool {
	for _, o := range operands {
		switch o {
		case 'u', 's':
			c.uleb()
		case 'b':
			c.take(c.uleb())
		}
	}
	return operands != ""
}
