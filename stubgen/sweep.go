package stubgen

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/x86"
)

// sweep is one worker of a survey. What it learns of the function at hand goes
// straight into that function's facts; what it learns of others is kept here
// and merged when all workers are done.
type sweep struct {
	s          *Survey
	hits       []windowHit
	jumps      []jumpEdge  // to and from what may be cold parts
	entryJumps []entryJump // from what may be cold parts to entries
	gs         bool

	low, high uint64   // the function at hand
	tables    []uint64 // addresses it took that may be jump tables
}

type windowHit struct {
	target    uint64
	who       targeted
	low, high uint64 // body the branch came from
}

// entryJump is a jump from function from to the entry of function to.
type entryJump struct {
	from, to int
	site     loopSite
}

// function decodes function i from its first to its last byte.
func (w *sweep) function(i int) {
	o := w.s.obj
	f, facts := &o.Functions[i], &w.s.facts[i]
	code := o.body(i)
	w.low, w.high = f.Addr, f.Addr+uint64(len(code))
	w.tables = w.tables[:0]
	var in x86.Inst
	var gs bool
	for at := 0; at < len(code); {
		if err := x86.Decode(code[at:], &in); err != nil {
			// Data in text, or the tail of an instruction that runs past
			// the end: go on behind it, nothing of it will be moved.
			facts.traits |= hasGap
			at++
			continue
		}
		pc := f.Addr + uint64(at)
		if in.Kind != x86.Plain {
			w.transfer(i, facts, &in, code[at:], pc)
		} else {
			w.s.parts.operand(o, &in, code[at:], pc)
			if in.Op == opLea && in.Map == x86.MapLegacy && in.RIPRel() && len(w.tables) < maxTables {
				w.tables = append(w.tables, in.RIPTarget(code[at:], pc))
			}
		}
		gs = gs || in.UsesGS()
		at += int(in.Len)
		if facts.traits&hasGap == 0 {
			facts.decoded = uint32(at)
		}
	}
	if gs && facts.traits&hasGap == 0 {
		w.gs = true // in a function with data in its text it may be that data
	}
}

const opLea = 0x8d

// maxTables bounds the addresses remembered for one function.
const maxTables = 64

// transfer handles every instruction that is not plain.
func (w *sweep) transfer(i int, facts *facts, in *x86.Inst, code []byte, pc uint64) {
	if in.OpSizeBranch() || in.Far() {
		facts.traits |= hasUnmovable
	}
	switch in.Kind {
	case x86.Call:
		facts.traits |= hasCall
		w.branch(i, facts, in, in.BranchTarget(code, pc), pc)
	case x86.Jmp, x86.Jcc, x86.Loop, x86.Xbegin:
		if in.Kind == x86.Xbegin {
			facts.traits |= hasUnmovable
		}
		w.branch(i, facts, in, in.BranchTarget(code, pc), pc)
	case x86.CallInd:
		facts.traits |= hasCall
	case x86.JmpInd:
		facts.traits |= hasIndirectJump
		w.jumpTables(i, facts, in, code)
	case x86.Syscall:
		facts.traits |= hasSystemCall
	}
}

// branch records where a direct branch of function i leads.
func (w *sweep) branch(i int, facts *facts, in *x86.Inst, target, pc uint64) {
	if w.s.near.has(target) {
		who := fromElsewhere
		if target >= w.low && target < w.high {
			who = fromOwnBody
		}
		w.hits = append(w.hits, windowHit{target, who, w.low, w.high})
	}
	if in.Kind == x86.Call {
		w.s.parts.take(target)
		return
	}
	site := loopSite{addr: pc, len: in.Len, rel8: in.ImmSize != 4}
	switch {
	case target == w.low || target == w.low+uint64(facts.start):
		facts.loops = append(facts.loops, site)
	case target < w.low || target >= w.high:
		w.leave(i, target, in.Kind == x86.Jcc, site)
	}
}

// leave records a jump of function i out of its body, where it may tell cold
// parts from functions: to an entry, or from a candidate to anywhere.
func (w *sweep) leave(i int, target uint64, conditional bool, site loopSite) {
	o := w.s.obj
	candidate := o.isPart(i) || isCandidate(&o.Functions[i])
	j := o.function(target)
	if j < 0 || target >= o.Functions[j].Addr+o.Functions[j].Size {
		return
	}
	switch to := &o.Functions[j]; {
	case target != to.Addr:
		if candidate {
			w.jumps = append(w.jumps, jumpEdge{int32(i), int32(j), conditional, true})
		}
		return
	case o.isPart(j) || isCandidate(to):
		w.jumps = append(w.jumps, jumpEdge{int32(i), int32(j), conditional, false})
	}
	if candidate {
		w.entryJumps = append(w.entryJumps, entryJump{i, j, site})
	}
}

// jumpTables follows the tables that the function's indirect jump may use:
// `jmp *table(,reg,8)` holds absolute addresses; for a jump through a register
// every address the function took so far may be a table of 32-bit offsets from
// itself (System V ABI code models; what gcc and clang emit with -fPIC).
// Reading on past a table's end only adds branch targets, which is safe.
func (w *sweep) jumpTables(i int, facts *facts, in *x86.Inst, code []byte) {
	if in.ModRM >= 0xc0 {
		for _, table := range w.tables {
			w.relativeTable(i, facts, table)
		}
		return
	}
	const sibDisp32 = 0x05 // SIB base 5 with mod 0: no base register
	if in.ModRM&0xc7 == 0x04 && in.DispSize == 4 && code[in.ModRMOff+1]&7 == sibDisp32 {
		w.absoluteTable(i, facts, uint64(int64(int32(binary.LittleEndian.Uint32(code[in.DispOff:])))))
	}
}

// maxTable bounds how far a table is read, in entries.
const maxTable = 1 << 14

func (w *sweep) relativeTable(i int, facts *facts, table uint64) {
	data := w.s.obj.data(table)
	for n := 0; n < maxTable && len(data) >= 4; n++ {
		target := table + uint64(int64(int32(binary.LittleEndian.Uint32(data))))
		if !w.tableTarget(i, facts, target) {
			return
		}
		data = data[4:]
	}
}

func (w *sweep) absoluteTable(i int, facts *facts, table uint64) {
	data := w.s.obj.data(table)
	for n := 0; n < maxTable && len(data) >= 8; n++ {
		if !w.tableTarget(i, facts, binary.LittleEndian.Uint64(data)) {
			return
		}
		data = data[8:]
	}
}

// tableTarget records one entry of a jump table; it reports false where the
// table has surely ended.
func (w *sweep) tableTarget(i int, facts *facts, target uint64) bool {
	o := w.s.obj
	if target == w.low || target == w.low+uint64(facts.start) {
		facts.traits |= loopsByTable
	}
	if w.s.near.has(target) {
		w.hits = append(w.hits, windowHit{target, fromElsewhere, 0, 0})
	}
	if target >= w.low && target < w.high {
		return true
	}
	j := o.function(target)
	if j < 0 || target >= o.Functions[j].Addr+o.Functions[j].Size {
		return false
	}
	if isCandidate(&o.Functions[j]) && target == o.Functions[j].Addr {
		w.jumps = append(w.jumps, jumpEdge{int32(i), int32(j), true, false})
		return true
	}
	return o.isPart(j)
}
