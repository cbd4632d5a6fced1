package flow

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Dispatch is an indirect jump by a jump table, of which it is known how many entries it may
// take: a copy of the table that is as long does as well.
type Dispatch struct {
	Jump     int32    // instruction
	Load     int32    // the instruction that reads the table: the jump itself, or one in front of it
	Table    uint64   // link-time address
	Absolute bool     // addresses of 64 bits, else offsets from the table of 32
	Targets  []uint64 // of all entries that may be taken; 0: it leads nowhere that is known
}

// mostDispatched bounds the entries of a dispatch: more are no jump table.
const mostDispatched = 4096

// Dispatches finds the jumps by tables. What was loaded is not read again on any way: it may
// be something else in a copy.
func (g *Graph) Dispatches(o *stubgen.Object) (list []Dispatch) {
	d := dispatcher{g: g, obj: o}
	for k := range g.Blocks {
		if g.Last(&g.Blocks[k]).Kind != x86.JmpInd {
			continue
		}
		if d.preds.first == nil {
			d.preds = g.preds()
		}
		if t, ok := d.find(int32(k)); ok {
			list = append(list, t)
		}
	}
	return list
}

type dispatcher struct {
	g     *Graph
	obj   *stubgen.Object
	preds preds
	holds map[byte][]uint64 // by register (held)
}

func (d *dispatcher) code(i int32) []byte {
	in := &d.g.Insts[i]
	return d.obj.Code(in.Addr)[:in.Len]
}

// find looks at the jump that ends block k:
//
//	jmp *table(,%i,8)        movslq (%t,%i,4), %r        mov (%t,%i,8), %r
//	jmp *(%t,%i,8)           add %t, %r                  jmp *%r
//	                         jmp *%r
func (d *dispatcher) find(k int32) (t Dispatch, ok bool) {
	t.Jump = d.g.Blocks[k].End - 1
	jump := &d.g.Insts[t.Jump]
	if jump.Far() || jump.RIPRel() {
		return t, false
	}
	p := path{dispatcher: d, block: k, at: t.Jump}
	t.Load = t.Jump
	r, inReg := jump.RM()
	if inReg && !d.loaded(&t, p, r) {
		return t, false
	}
	m, ok := d.g.Insts[t.Load].Memory(d.code(t.Load))
	if !ok || m.Index == x86.NoRegister || int(m.Scale) != t.entrySize() {
		return t, false
	}
	p.at = t.Load // in the jump's block
	if t.Table, ok = p.base(m); !ok {
		return t, false
	}
	n := p.bound(m.Index)
	return t, n > 0 && n <= mostDispatched && d.read(&t, n) && !(inReg && d.readLater(&t, r))
}

// Size is the bytes of the entries that may be taken.
func (t *Dispatch) Size() int { return len(t.Targets) * t.entrySize() }

func (t *Dispatch) entrySize() int {
	if t.Absolute || t.Load == t.Jump {
		return 8
	}
	return 4
}

// loaded finds in the jump's block what loads register r.
func (d *dispatcher) loaded(t *Dispatch, p path, r byte) bool {
	base, added := byte(x86.NoRegister), false
	for p.at > d.g.Blocks[p.block].First {
		p.at--
		in, code := &d.g.Insts[p.at], d.code(p.at)
		m, isMemory := in.Memory(code)
		switch {
		case in.Map == x86.MapLegacy && in.Op == opMovslq && in.Reg() == r && isMemory && in.Rex&x86.RexW != 0 && added:
			t.Load = p.at
			return m.Base == base
		case in.Map == x86.MapLegacy && in.Op == opMovLoad && in.Reg() == r && isMemory && in.Rex&x86.RexW != 0 && !added:
			t.Load, t.Absolute = p.at, true
			return true
		case !added && isAdd(in, r):
			base, added = other(in, r), true
			continue
		}
		if e := in.Effects(code); e.Written.Or(e.Read).Has(r) || base != x86.NoRegister && e.Written.Has(base) {
			return false
		}
	}
	return false
}

const (
	opMovslq   = 0x63
	opMovLoad  = 0x8b
	opMovStore = 0x89
	opAddRM    = 0x01
	opAddReg   = 0x03
)

// isAdd reports `add %other, %r` of 64 bits.
func isAdd(in *Inst, r byte) bool {
	rm, inReg := in.RM()
	if in.Map != x86.MapLegacy || in.Enc != x86.EncLegacy || !inReg || in.Rex&x86.RexW == 0 {
		return false
	}
	return in.Op == opAddRM && rm == r && in.Reg() != r || in.Op == opAddReg && in.Reg() == r && rm != r
}

func other(in *Inst, r byte) byte {
	if rm, _ := in.RM(); rm != r {
		return rm
	}
	return in.Reg()
}

// readLater reports whether register r may be read where the jump leads, before it is
// overwritten. What calls and returns of the unit lead to is not asked: a jump's target is
// neither passed on nor returned.
func (d *dispatcher) readLater(t *Dispatch, r byte) bool {
	seen := make([]bool, len(d.g.Blocks))
	todo := []int32{}
	for _, to := range t.Targets {
		if i := d.g.InstAt(to); i >= 0 {
			todo = append(todo, int32(d.g.BlockOf(int32(i))))
		}
	}
	for len(todo) > 0 {
		k := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[k] {
			continue
		}
		seen[k] = true
		switch b := &d.g.Blocks[k]; d.through(b, r) {
		case isRead:
			return true
		case goesThrough:
			for _, e := range b.Succs {
				todo = append(todo, e.To)
			}
		}
	}
	return false
}

// fate is what becomes of a register in a block.
type fate uint8

const (
	goesThrough fate = iota
	isRead
	isOverwritten
)

func (d *dispatcher) through(b *Block, r byte) fate {
	for i := b.First; i < b.End; i++ {
		in := &d.g.Insts[i]
		e := in.Effects(d.code(i))
		saved := !x86.CallerSaved.Has(r)
		switch {
		case in.Kind == x86.Syscall, in.Kind == x86.Ret && saved:
			return isRead
		case in.Kind == x86.Call || in.Kind == x86.Ret:
		case e.Read.Has(r):
			return isRead
		}
		if e.Killed.Has(r) || !saved && (in.Calls() || in.Kind == x86.Ret) {
			return isOverwritten
		}
	}
	return goesThrough
}

// read reads the n entries that may be taken, of a table that nobody writes.
func (d *dispatcher) read(t *Dispatch, n int) bool {
	size := t.entrySize()
	t.Absolute = size == 8
	data := d.obj.Constant(t.Table, n*size)
	if data == nil {
		return false
	}
	known := 0
	t.Targets = make([]uint64, n)
	for i := range t.Targets {
		at := data[i*size:]
		if t.Absolute {
			t.Targets[i] = binary.LittleEndian.Uint64(at) - d.obj.Bias
		} else {
			t.Targets[i] = t.Table + uint64(int64(int32(binary.LittleEndian.Uint32(at))))
		}
		k := d.g.InstAt(t.Targets[i])
		if k >= 0 && d.g.Blocks[d.g.BlockOf(int32(k))].First == int32(k) {
			known++
		} else {
			t.Targets[i] = 0
		}
	}
	return known > 0
}
