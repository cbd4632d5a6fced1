package emit

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/x86"
)

// Forms. Of some operands more than an address has to be worked out, as with rep: what they read and
// write is a matter of several registers (x86.Form). In front of their instruction stands what calls
// the slow path of records, always, or where regions are recorded if there has been one. It gets
// words that describe the operands, and works out of the registers that the instruction is about to
// find which bytes these are; it reads no memory of the program's
// (libdynprof/resident/table/forms.c). All else is as with records. Its register is always
// saved on the stack.

// What Touch.Record says besides of forms: where flags are saved; that it is touches that are noted.
const (
	recordForms = 1 << 18
	formsFlags  = 1 << 19
	formsTouch  = 1 << 20
)

// Form is one of the operands.
type Form struct {
	x86.Form
	Second bool // it is the second of its instruction
}

// What a Form is for the slow path.
const (
	formDisp     = 0 // i64; by RIP, from the instruction on
	formSize     = 8 // u16, all bytes; with a mask or rep those of an element
	formBase     = 10
	formIndex    = 11
	formScale    = 12
	formSegment  = 13
	formFlags    = 14
	formWay      = 15
	formRegister = 16
	formElement  = 17
	formKind     = 18 // as in Touch.Record
	formMore     = 19 // another follows
	formBy       = 20 // u32, By.number of the instruction, where that is told
	formBytes    = 24

	formAddr32 = 1 // flags
	formByte   = 2 // of the index 8 bits count
	formLine   = 4
	formIs32   = 8  // lanes of an index have 32 bits
	formVector = 16 // the mask is a vector's sign bits
	formVEX    = 64 // or of VEX
	formWide   = 32 // vectors are those of EVEX
)

// FormsOf is a Touch for forms, in front of an instruction; records says that they are recorded.
func FormsOf(forms []Form, keepsFlags, records bool) Touch {
	t := Touch{Scratch: x86.NoRegister, KeepsFlags: keepsFlags, Forms: forms, Record: recordIs | recordForms}
	if keepsFlags {
		t.Record |= formsFlags
	}
	if !records {
		t.Record |= formsTouch
	}
	return t
}

// formsSize is the most that Write takes of it.
const formsSize = 40

// checkForms goes to what calls the slow path, but with records only if there has been a region:
//
//	      cmp   qword [high], 0
//	      jne   cold
//	back:
func (t *Touch) checkForms(a *x86.Asm, use *TouchUse) {
	if t.Record&formsTouch == 0 {
		a.CmpZeroAbsolute(BoundHigh)
		a.Jcc(x86.CondNE, use.Cold)
	} else {
		a.Jmp(use.Cold)
	}
	a.Bind(use.Back)
}

// writeForms writes what describes them, and returns where.
func (t *Touch) writeForms(a *x86.Asm, use *TouchUse) x86.RunAddr {
	at := a.PC()
	for i := range t.Forms {
		f := &t.Forms[i]
		var b [formBytes]byte
		binary.LittleEndian.PutUint64(b[formDisp:], uint64(f.Disp))
		binary.LittleEndian.PutUint16(b[formSize:], f.Size*f.Count)
		if f.Way == x86.FormRepeated || f.Way == x86.FormLanes {
			binary.LittleEndian.PutUint16(b[formSize:], f.Size)
		}
		b[formBase], b[formIndex], b[formScale], b[formSegment] = f.Base, f.Index, f.Scale, byte(f.Segment)
		for flag, is := range map[byte]x86.OperandFlags{formAddr32: x86.OperandAddr32, formByte: x86.OperandIndexByte, formLine: x86.OperandLine, formIs32: x86.OperandIndex32} {
			if f.Flags&is != 0 {
				b[formFlags] |= flag
			}
		}
		if f.Vector {
			b[formFlags] |= formVector
		}
		if f.Enc == x86.EncVEX {
			b[formFlags] |= formVEX
		}
		if f.Enc == x86.EncEVEX {
			b[formFlags] |= formWide
		}
		b[formWay], b[formRegister], b[formElement] = byte(f.Way), f.Register, f.Element
		b[formKind] = byte((Record(&f.Operand, f.Second) &^ RecordSize) >> RecordKind)
		if i+1 < len(t.Forms) {
			b[formMore] = 1
		}
		if t.Tells {
			binary.LittleEndian.PutUint32(b[formBy:], use.By.number(use.By.Inst))
		}
		if a.Copy(b[:]); t.Tells {
			use.By.fix(a.Len() - formBytes + formBy)
		}
	}
	return at
}

// ColdSize is the most that WriteCold takes.
func (t *Touch) ColdSize() int { return RecordColdSize + len(t.Forms)*formBytes }
