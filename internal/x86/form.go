package x86

// Form says how the memory of an operand follows from the registers in front of its instruction,
// where that is more than an address (Operand.Linear).
type Form struct {
	Operand
	Way      FormWay
	Register byte // the general register of FormBits, or the mask
	Vector   bool // which is the sign bits of a vector
	Element  byte // bytes of an element that a mask has a bit for; of FormAny how many bits, of FormLanes how many lanes there are
	Enc      Enc  // vectors are those of it
}

// FormWay is the way.
type FormWay byte

// Ways.
const (
	FormOnce     FormWay = iota // all of it, at its address
	FormRepeated                // as often as RCX says, or ECX with Addr32; with DF downwards
	FormBits                    // where the bit is that Register says
	FormMasked                  // the elements that the mask has
	FormPacked                  // as many elements as the mask has, one behind the other
	FormAny                     // all of it if the mask has any
	FormLanes                   // the lanes that the mask has, each at an address of its own
)

// Of opcodes without a map.
const (
	opMovs  = 0xa4
	opCmps  = 0xa6
	opStos  = 0xaa
	opLods  = 0xac
	opScas  = 0xae
	opWidth = 1 // the bit that says whether an operand has 8 bits
)

// Form is that of an operand of the instruction at the start of code. It reports false if what it
// reads or writes does not follow from registers alone: cmps and scas, which end where memory says
// so; what the CPU's state decides.
func (in *Inst) Form(code []byte, o *Operand) (f Form, ok bool) {
	f = Form{Operand: *o}
	switch {
	case o.Size == 0 || o.Flags&OperandVariable != 0:
		return f, false
	case o.Flags&OperandMasked != 0:
		f.Enc = in.Enc
		return f, in.masked(code, &f)
	case o.Flags&OperandRepeated != 0:
		f.Way = FormRepeated
		op := in.Op &^ opWidth
		return f, op == opMovs || op == opStos || op == opLods
	case o.Flags&OperandBitOffset != 0:
		f.Way, f.Register = FormBits, in.Reg()
	}
	return f, true
}
