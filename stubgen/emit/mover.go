package emit

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Mover writes relocated instructions one by one, for who lays out a copy himself.
type Mover struct{ rel relocator }

// NewMover writes code of o by asm.
func NewMover(asm *x86.Asm, o *stubgen.Object) *Mover { return &Mover{relocator{asm: asm, obj: o}} }

// Same writes an instruction that is no direct jump, and stood at pc. Of a call the
// return address is that of the original, which is not behind the copy.
func (m *Mover) Same(in *x86.Inst, code []byte, pc uint64) { m.rel.one(in, code, pc) }

// Branch writes a direct jump, to a label: with two bytes, or those of the original, if it is
// short.
func (m *Mover) Branch(in *x86.Inst, code []byte, to x86.Label, short bool) {
	switch a := m.rel.asm; {
	case !short:
		m.rel.branch(in, code, to, 0)
	case in.Kind == x86.Loop:
		a.Copy(code[:in.ImmOff])
		a.Rel8(to)
	case in.Kind == x86.Jcc:
		a.JccShort(x86.Cond(in.Cond()), to)
	default:
		a.JmpShort(to)
	}
}

// Leave writes a direct jump, to an address.
func (m *Mover) Leave(in *x86.Inst, code []byte, to x86.RunAddr) { m.rel.branch(in, code, 0, to) }

// Finish writes the literals that the instructions refer to, which are run addresses, and
// returns where they are.
func (m *Mover) Finish() (offsets []int) {
	for _, l := range m.rel.literals {
		quad(m.rel.asm, l.label, l.value)
		offsets = append(offsets, m.rel.asm.Len()-literalSize)
	}
	m.rel.literals = m.rel.literals[:0]
	return offsets
}

// MovedSize is the most bytes that Same, Branch or Leave takes, and Finish for it.
func MovedSize(o *stubgen.Object, in *x86.Inst, pc uint64) int {
	n := movedSize(o, in, pc)
	if isCall(in) && needsLiteral(o, pc+uint64(in.Len)) {
		n += 2*literalSize - 1
	}
	return n
}

// KeepFlags writes what a count stands between where flags are live, as in a stub that
// keeps them.
func KeepFlags(a *x86.Asm, count func()) {
	saveFlags(a)
	count()
	restoreFlags(a)
}
