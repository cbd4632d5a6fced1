package survey

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// jumpTables follows the tables that the function's indirect jump may use:
// `jmp *table(,reg,8)` holds absolute addresses; for a jump through a register
// every address the function took so far may be a table of 32-bit offsets from
// itself (System V ABI code models; what gcc and clang emit with -fPIC).
// Reading on past a table's end only adds branch targets, which is safe; of the
// last, outside the function, those are left out that no code can lead to.
func (w *sweep) jumpTables(i int, facts *facts, in *x86.Inst, code []byte) {
	if in.ModRM >= 0xc0 {
		w.relativeTables(i, facts)
		return
	}
	const sibDisp32 = 0x05 // SIB base 5 with mod 0: no base register
	if in.ModRM&0xc7 == 0x04 && in.DispSize == 4 && code[in.ModRMOff+1]&7 == sibDisp32 {
		w.absoluteTable(i, facts, uint64(int64(int32(binary.LittleEndian.Uint32(code[in.DispOff:])))))
	}
}

// mostEntries bounds the entries of jump tables that are read for one object: a file
// may be made so that tables are read over and over (Debian's libLLVM-14: 2 million).
// Beyond it nothing of the object is patched.
const mostEntries = 1 << 24

// tooManyEntries reports whether some tables were not read to their ends. Whichever
// worker came to which function first, that is so or not.
func (s *Survey) tooManyEntries() bool { return s.entriesRead.Load() > mostEntries }

// mayRead reports whether the bound leaves room for one more.
func (w *sweep) mayRead() bool { return w.s.entriesRead.Load()+w.entries <= mostEntries }

// relativeTables reads what the function took so far.
func (w *sweep) relativeTables(i int, facts *facts) {
	for _, table := range w.tables {
		w.relativeTable(i, facts, table)
	}
	w.tables = w.tables[:0] // read once
}

func (w *sweep) relativeTable(i int, facts *facts, table uint64) {
	if !w.mayRead() {
		return
	}
	for data := w.s.obj.Bytes(table); len(data) >= 4; data = data[4:] {
		w.entries++
		if !w.tableTarget(i, facts, table+uint64(int64(int32(binary.LittleEndian.Uint32(data))))) {
			return
		}
	}
}

// absoluteTable reads a table of addresses. The tables of one function follow
// each other, so that reading one goes on into the next: where it comes to
// what was read last it stops.
func (w *sweep) absoluteTable(i int, facts *facts, table uint64) {
	if table >= w.readLow && table < w.readHigh || !w.mayRead() {
		return
	}
	at := table
	for data := w.s.obj.Bytes(table); len(data) >= 8; data = data[8:] {
		w.entries++
		if !w.tableTarget(i, facts, binary.LittleEndian.Uint64(data)) {
			break
		}
		if at += 8; at == w.readLow {
			at = w.readHigh
			break
		}
	}
	w.readLow, w.readHigh = table, at
}

// tableTarget records one entry of a jump table; it reports false where the
// table has surely ended.
func (w *sweep) tableTarget(i int, facts *facts, target uint64) bool {
	o := w.s.obj
	if target == w.low || target == w.inside-1 {
		facts.traits |= loopsByTable
	}
	own := target-w.low < w.high-w.low
	if (!own || w.nested || target-w.inside < stubgen.WindowSize-1) && w.s.entries.maybeInside(target) {
		w.hits = append(w.hits, windowHit{target: target, who: fromElsewhere, past: !own})
	}
	if own {
		w.byTable = true
		return true
	}
	w.s.entries.touch(target)
	if target == w.high || w.partHigh > 0 && target >= w.partLow && target <= w.partHigh {
		return true // clang has entries for what cannot be, which lead to where the last block ends
	}
	j := o.FunctionAt(target)
	if j < 0 || target >= o.Functions[j].Addr+o.Functions[j].Size {
		return false
	}
	if isCandidate(&o.Functions[j]) && target == o.Functions[j].Addr && nearPart(o, j) {
		w.jumps = append(w.jumps, jumpEdge{int32(i), int32(j), true, false})
		return true
	}
	if isPart(o, j) {
		w.partLow, w.partHigh = o.Functions[j].Addr, o.Functions[j].Addr+o.Functions[j].Size
		return true
	}
	return false
}
