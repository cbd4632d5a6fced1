package translate

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Operands of which more than an address has to be worked out (emit.Form). In front of their
// instruction all of its operands are noted, or recorded, in order, wherever it runs: in both copies,
// each time.

// formsOf are the operands of such an instruction; none of another.
func (t *toucher) formsOf(in *flow.Inst) (forms []emit.Form) {
	code := t.obj.Code(in.Addr)[:in.Len]
	var all [x86.MaxOperands]x86.Operand
	rare := false
	for i, p := range all[:in.Operands(code, &all)] {
		if p.Kind&(x86.OperandLoad|x86.OperandStore) == 0 {
			continue
		}
		rare = rare || !t.how.Recorded(&p)
		f, ok := in.Form(code, &p)
		if !ok || !t.how.hasBase(&p) {
			return nil
		}
		if p.Base == x86.RIP {
			f.Disp += int64(in.Len)
		}
		forms = append(forms, emit.Form{Form: f, Second: i > 0})
	}
	if !rare {
		return nil
	}
	return forms
}

// hasForms reports whether it is such an instruction.
func (t *toucher) hasForms(inst int32) bool {
	return t.formsOf(&t.code.Home.Graph.Insts[inst]) != nil
}

// putForms adds what is in front of it.
func (t *toucher) putForms(ops []Op, inst int32) []Op {
	forms := t.formsOf(&t.code.Home.Graph.Insts[inst])
	if forms == nil {
		return ops
	}
	touch := emit.FormsOf(forms, t.live[inst]&touchChange != 0, t.compares)
	touch.Granule, touch.Masks = t.how.Granule, t.how.Masks
	t.code.Touches = append(t.code.Touches, touch)
	return append(ops, Op{Kind: Touch, Inst: inst, To: int32(len(t.code.Touches)) - 1})
}
