package translate

import (
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Operands of which more than an address has to be worked out (emit.Form). In front of their
// instruction all of its operands are noted, or recorded, in order, wherever it runs: in both copies,
// each time.

// formsOf are the operands of such an instruction; none of another.
func (how *Touching) formsOf(o *stubgen.Object, in *flow.Inst) (forms []emit.Form) {
	code := o.Code(in.Addr)[:in.Len]
	var all [x86.MaxOperands]x86.Operand
	operands := all[:in.Operands(code, &all)]
	touches := func(p *x86.Operand) bool { return p.Kind&(x86.OperandLoad|x86.OperandStore) != 0 }
	if !slices.ContainsFunc(operands, func(p x86.Operand) bool { return touches(&p) && !how.Recorded(&p) }) {
		return nil
	}
	for i := range operands {
		p := &operands[i]
		if !touches(p) {
			continue
		}
		f, ok := in.Form(code, p)
		if !ok || !how.hasBase(p) {
			return nil
		}
		if p.Base == x86.RIP {
			f.Disp += int64(in.Len)
		}
		forms = append(forms, emit.Form{Form: f, Second: i > 0})
	}
	return forms
}

// putForms adds what is in front of it.
func (t *toucher) putForms(ops []Op, inst int32) []Op {
	forms := t.forms[inst]
	if forms == nil {
		return ops
	}
	touch := emit.FormsOf(forms, t.live[inst]&touchChange != 0, t.compares)
	touch.Granule, touch.Masks, touch.Tells = t.how.Granule, t.how.Masks, t.how.Tells
	t.code.Touches = append(t.code.Touches, touch)
	return append(ops, Op{Kind: Touch, Inst: inst, To: int32(len(t.code.Touches)) - 1})
}
