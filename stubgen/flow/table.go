package flow

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
)

// Table is a jump table of a unit: offsets of 32 or 64 bits, from the table (what compilers
// write for position independent code) or from a label in the unit (`&&this - &&that` of C),
// or addresses of 64 bits. How long it is nobody tells: it is read to the first entry that leads
// nowhere, so it may have more targets than the program knows, never fewer.
type Table struct {
	Addr     uint64
	Base     uint64 // what offsets count from
	Absolute bool
	Targets  []uint64 // in the order of the table; not each once
}

// mostTargets bounds the entries that are read for one unit, and how often is looked for a
// table: a file may be made so that many tables run on into each other.
const mostTargets = 1 << 20

// readTables finds the jump tables of a unit that has indirect jumps: at every address of data
// that its code takes, and at those that are in jumps themselves.
func (b *builder) readTables() {
	has := false
	for i := range b.g.Insts {
		in := &b.g.Insts[i]
		switch code := b.code(in); {
		case in.Kind == x86.JmpInd:
			has = true
			b.take(in, code)
		case in.Kind == x86.Plain && in.Map == x86.MapLegacy && in.Op == opLea && in.RIPRel():
			b.takes = append(b.takes, in.RIPTarget(code, in.Addr))
		case in.Kind == x86.Plain && in.RIPRel():
			if b.g.Unit.Contains(in.RIPTarget(code, in.Addr)) { // data among code
				b.why = ledger.ReasonUndecodable
				return
			}
		case in.Kind == x86.Plain && b.p.obj.Absolute:
			b.take(in, code)
		}
	}
	if !has {
		return
	}
	slices.Sort(b.takes)
	b.takes = slices.Compact(b.takes)
	left := mostTargets
	for _, at := range b.takes {
		b.read(at, at, &left)
		for _, base := range b.takes {
			if base != at && left > 0 && b.isLabel(base) {
				left-- // a look is not for nothing
				b.read(at, base, &left)
			}
		}
		if left == 0 {
			b.why = ledger.ReasonUndecodable
			return
		}
	}
	slices.SortFunc(b.g.Tables, func(x, y Table) int { return cmp.Or(cmp.Compare(x.Addr, y.Addr), cmp.Compare(x.Base, y.Base)) })
}

// isLabel reports whether an address that code takes is that of one of the unit's instructions.
func (b *builder) isLabel(at uint64) bool {
	i, _ := b.find(at)
	return i >= 0
}

// keep notes a table, if it is one.
func (b *builder) keep(t Table) {
	if len(t.Targets) == 0 {
		return
	}
	b.g.Tables = append(b.g.Tables, t)
	for _, to := range t.Targets {
		if i, _ := b.find(to); i >= 0 {
			b.ways[i] |= ByTable
		}
	}
}

const opLea = 0x8d

// take notes the displacement of an operand `table(,%reg,8)`, and an immediate that may be a table's
// address, of a program that is not position independent.
func (b *builder) take(in *Inst, code []byte) {
	const sib = 0x04 // in the low bits of ModRM: a SIB byte follows
	if in.HasModRM && in.ModRM < 0xc0 && in.ModRM&7 == sib && in.DispSize == 4 {
		b.takes = append(b.takes, uint64(int64(int32(binary.LittleEndian.Uint32(code[in.DispOff:])))))
	}
	switch {
	case in.Kind != x86.Plain:
	case in.ImmSize == 4:
		b.takes = append(b.takes, uint64(binary.LittleEndian.Uint32(code[in.ImmOff:])))
	case in.ImmSize == 8:
		b.takes = append(b.takes, binary.LittleEndian.Uint64(code[in.ImmOff:]))
	}
}

// read reads what may be a table, in each form that its bytes can have: of addresses, and of
// offsets from base.
func (b *builder) read(at, base uint64, left *int) {
	data := b.p.obj.Bytes(at)
	b.keep(Table{at, base, false, b.entries(data, 4, left, func(d []byte) uint64 { return base + uint64(int64(int32(binary.LittleEndian.Uint32(d)))) })})
	b.keep(Table{at, base, false, b.entries(data, 8, left, func(d []byte) uint64 { return base + binary.LittleEndian.Uint64(d) })})
	if at == base {
		b.keep(Table{at, 0, true, b.entries(data, 8, left, binary.LittleEndian.Uint64)})
	}
}

// entries reads entries of so many bytes, until one does not lead to an instruction of
// the unit, or to a part that several units jump to. Entries for what cannot be, as
// clang has them, lead to where the function's last block ends: they end no table.
func (b *builder) entries(data []byte, size int, left *int, target func([]byte) uint64) (list []uint64) {
	for ; len(data) >= size && *left > 0; data = data[size:] {
		to := target(data)
		if i, _ := b.find(to); i < 0 && !b.isEnd(to) && !b.p.isForeignPart(to) {
			break
		}
		list = append(list, to)
		*left--
	}
	return list
}

// isEnd reports whether a range of the unit ends at addr.
func (b *builder) isEnd(addr uint64) bool {
	return slices.ContainsFunc(b.g.Unit.Ranges, func(r elfscan.Range) bool { return r.High == addr })
}

// isForeignPart reports whether addr lies in a unit that is a part, or where one ends.
func (p *Program) isForeignPart(addr uint64) bool {
	for _, at := range []uint64{addr, addr - 1} {
		if i := p.UnitAt(at); i >= 0 && p.obj.Functions[p.units[i].Function].Excluded == ledger.ReasonColdPart {
			return true
		}
	}
	return false
}
