package translate

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Jump tables of a copy. The instruction that reads one does so with another displacement,
// so that all registers but that with the target are what they were:
//
//	movslq (%rdx,%rax,4), %rax        movslq copied-table(%rdx,%rax,4), %rax
//	add    %rdx, %rax                 add    %rdx, %rax
//	jmp    *%rax                      jmp    *%rax
//
// What no block is known for has the value of the original entry.

// RebuildTables gives the copy jump tables of its own, where it is known how long they are:
// their entries lead into the copy. Elsewhere jumps by tables lead to the old body, and from
// there into the copy. An address of a program that is position independent is in its table
// only when that is relocated.
func (c *Code) RebuildTables(o *stubgen.Object) {
	c.Tables = slices.DeleteFunc(c.Home.Graph.Dispatches(o), func(t flow.Dispatch) bool {
		return t.Absolute && !o.Absolute && slices.ContainsFunc(t.Targets, func(to uint64) bool { return c.landingAt(to) < 0 })
	})
}

// landingAt is the number of the block that a landing at an address of the old body leads
// to, -1 if there is none.
func (c *Code) landingAt(at uint64) int {
	i, found := slices.BinarySearchFunc(c.Home.Landings, at, func(l Landing, at uint64) int { return cmp.Compare(c.Home.Graph.Insts[l.Inst].Addr, at) })
	if !found {
		return -1
	}
	return c.Home.Graph.BlockOf(c.Home.Landings[i].Inst)
}

// reading is an instruction that reads a copied table.
type reading struct {
	table int         // number
	end   int         // of the instruction, in the copy, behind its displacement
	base  x86.RunAddr // what is in the base register: where the table was; 0: there is none
}

const (
	tableAlign = 8
	displaced  = 4             // bytes that the reading instruction may grow by
	reach      = 1<<31 - 1<<26 // from where the table was to the reading instruction, which is near its new place
)

// table is the number of the table that an instruction reads, if the copy has one of its own.
func (c *Code) table(inst int32) (number int, ok bool) {
	return slices.BinarySearchFunc(c.Tables, inst, func(t flow.Dispatch, inst int32) int { return cmp.Compare(t.Load, inst) })
}

// hasBase reports whether the instruction that reads a table has its address in a register.
func (c *Code) hasBase(o *stubgen.Object, t *flow.Dispatch) bool {
	in := &c.Home.Graph.Insts[t.Load]
	m, _ := in.Memory(o.Code(in.Addr)[:in.Len])
	return m.Base != x86.NoRegister
}

// alike is by table the number of the first that is the same, as each goto of an interpreter
// has its own: a copy has one of them, as the original has.
func (c *Code) alike(o *stubgen.Object) []int {
	type key struct {
		table    uint64
		entries  int
		absolute bool
		hasBase  bool
	}
	firsts, list := map[key]int{}, make([]int, len(c.Tables))
	for i := range c.Tables {
		t := &c.Tables[i]
		k := key{t.Table, len(t.Targets), t.Absolute, c.hasBase(o, t)}
		first, found := firsts[k]
		if !found || !slices.Equal(t.Targets, c.Tables[first].Targets) {
			first, firsts[k] = i, i
		}
		list[i] = first
	}
	return list
}

// read writes an instruction that reads a table, with the copied one in its place; false if
// it is none.
func (w *Writer) read(inst int32, code []byte) bool {
	number, ok := w.code.table(inst)
	if !ok {
		return false
	}
	in, t := &w.code.Home.Graph.Insts[inst], &w.code.Tables[number]
	l := reading{table: number}
	if w.code.hasBase(w.obj, t) {
		l.base = w.obj.Run(t.Table)
	}
	if d := int64(w.asm.PC() - l.base); d < -reach || d > reach {
		return false
	}
	w.asm.Displaced(&in.Inst, code, 0)
	l.end = w.asm.Len()
	w.reads = append(w.reads, l)
	return true
}

// isAimed reports whether an instruction stands between the last that has read a copied table,
// in its block, and behind the jump by that: in front of it the register has what the copy is
// like, which nobody else shall see.
func (w *Writer) isAimed(inst int32) bool {
	n := len(w.reads)
	if n == 0 {
		return false
	}
	t := &w.code.Tables[w.reads[n-1].table]
	return inst > t.Load && inst <= t.Jump
}

// writeTables writes the tables behind the copy.
func (w *Writer) writeTables() {
	if len(w.reads) == 0 {
		return
	}
	alike, places := w.code.alike(w.obj), make([]x86.RunAddr, len(w.code.Tables))
	for _, l := range w.reads {
		place := &places[alike[l.table]]
		if *place == 0 {
			w.asm.Align(tableAlign)
			*place = w.asm.PC()
			w.writeTable(&w.code.Tables[l.table], l.base)
		}
		w.asm.PutDisp32(l.end, int32(*place-l.base))
	}
}

func (w *Writer) writeTable(t *flow.Dispatch, base x86.RunAddr) {
	at := w.obj.Bytes(t.Table)
	for i, to := range t.Targets {
		if t.Absolute {
			v := binary.LittleEndian.Uint64(at[8*i:])
			if k := w.code.landingAt(to); k >= 0 {
				v = uint64(w.asm.Place(w.landing(k)))
			}
			w.asm.Quad(v)
			w.fix(8, FixAddress)
			continue
		}
		v := int32(binary.LittleEndian.Uint32(at[4*i:]))
		if k := w.code.landingAt(to); k >= 0 {
			v = int32(w.asm.Place(w.landing(k)) - base)
		}
		w.asm.Raw(binary.LittleEndian.AppendUint32(nil, uint32(v))...)
	}
}

// landing is the label in front of a block that jumps from outside of the copy lead to.
func (w *Writer) landing(k int) x86.Label {
	if d := w.code.Lands[k]; d != 0 {
		return w.detours[d-1]
	}
	return w.labels[k]
}
