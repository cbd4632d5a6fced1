package emit

import "github.com/dynprof/dynprof/internal/x86"

// Touches that tell. Of each page that is read or written it is stored which instruction did so, as a
// number of 32 bits, one for who reads and one for who writes, whatever was there: so the last one
// stays. It looks for nothing but whether what is accessed is in one page.

// By is how instructions are told.
type By struct {
	Number func(inst int32) uint32 // of one, by Mark.By
	Fix    func(at int)            // is called with the offset of each number; nil if nobody asks
	Inst   int32                   // the one that forms are of
}

// What is in the shadow in place of two bytes.
const (
	ShadowBy      = 8 // bytes a page: who has read it,
	ShadowByWrote = 4 // and here who has written it
)

// number is 0 where only the size counts.
func (b *By) number(inst int32) uint32 {
	if b == nil {
		return 0
	}
	return b.Number(inst)
}

func (b *By) fix(at int) {
	if b != nil && b.Fix != nil {
		b.Fix(at)
	}
}

// tell stores who reads and who writes the page whose number is in a register:
//
//	mov  dword [shadow+r*8], number    ; or +4; or both
func (m *Mark) tell(a *x86.Asm, r byte, use *TouchUse) {
	for i, kind := range []x86.OperandKind{x86.OperandLoad, x86.OperandStore} {
		if m.Kind&kind != 0 {
			use.By.fix(a.MovDoubleAtEight(r, ShadowAt+int32(i)*ShadowByWrote, use.By.number(m.By[i])))
		}
	}
}

// done adds what is done by another mark.
func (m *Mark) done(o *Mark) {
	for i, kind := range []x86.OperandKind{x86.OperandLoad, x86.OperandStore} {
		if o.Kind&kind != 0 {
			m.By[i] = o.By[i]
		}
	}
	m.Kind |= o.Kind
}

// Merge adds what is done by another mark of the same bytes, the first of which is one of t's. It
// reports false, and adds nothing, if there is no room.
func (t *Touch) Merge(i int, m *Mark) bool {
	old := t.Marks[i]
	t.Marks[i].done(m)
	if t.Tells && t.Marks[i].Kind != old.Kind && t.atMost() >= TouchSize && t.Size() >= TouchSize {
		t.Marks[i] = old
		return false
	}
	return true
}

// Crosses reports whether any of what a Touch looks for may be in two granules.
func (t *Touch) Crosses() bool {
	var all [mostMarks]Mark
	for _, m := range t.together(all[:0]) {
		if m.More > 0 {
			return true
		}
	}
	return false
}
