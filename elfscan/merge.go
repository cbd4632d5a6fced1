package elfscan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/ledger"
)

// merge makes one Function of all that the symbols and frames tell of each
// address. Both are sorted by it; low is what their addresses count from.
func merge(low uint64, t *symbols, frames []frame) []Function {
	addrs, named := countAddrs(t.list, frames)
	m := merger{
		low:       low,
		symbols:   t,
		functions: make([]Function, 0, addrs),
		aliases:   make([]string, 0, len(t.list)-named),
	}
	for i, j := 0, 0; i < len(t.list) || j < len(frames); {
		addr := nextAddr(t.list[i:], frames[j:])
		syms, fdes := i, j
		for i < len(t.list) && t.list[i].addr == addr {
			i++
		}
		for j < len(frames) && frames[j].addr == addr {
			j++
		}
		m.add(addr, t.list[syms:i], frames[fdes:j])
	}
	return m.functions
}

// countAddrs returns the number of addresses in both lists and in syms alone.
func countAddrs(syms []symbol, frames []frame) (all, named int) {
	for i, j := 0, 0; i < len(syms) || j < len(frames); all++ {
		addr := nextAddr(syms[i:], frames[j:])
		if i < len(syms) && syms[i].addr == addr {
			named++
		}
		for i < len(syms) && syms[i].addr == addr {
			i++
		}
		for j < len(frames) && frames[j].addr == addr {
			j++
		}
	}
	return all, named
}

// nextAddr is the lowest address in two sorted lists, not both empty.
func nextAddr(syms []symbol, frames []frame) uint32 {
	switch {
	case len(syms) == 0:
		return frames[0].addr
	case len(frames) == 0:
		return syms[0].addr
	}
	return min(syms[0].addr, frames[0].addr)
}

// merger makes functions by rising address.
type merger struct {
	low       uint64
	symbols   *symbols
	functions []Function
	aliases   []string // all functions' aliases, one after the other
	names     []name   // scratch
	symbolEnd uint64   // the highest end of a sized symbol so far
	frameEnd  uint64   // the same of a frame
}

// add appends the function at addr.
func (m *merger) add(addr uint32, syms []symbol, frames []frame) {
	if m.describes(addr, syms, frames) {
		return
	}
	m.functions = append(m.functions, Function{Addr: m.low + uint64(addr), Source: ledger.SourceEhFrame})
	fn := &m.functions[len(m.functions)-1]
	if len(syms) > 0 {
		m.addSymbols(fn, syms)
		m.symbolEnd = max(m.symbolEnd, fn.Addr+fn.Size)
	}
	if len(frames) > 0 {
		m.frameEnd = max(m.frameEnd, fn.Addr+addFrames(fn, frames))
	}
	switch {
	case len(syms) == 0 && fn.Addr < m.symbolEnd && fn.Excluded == ledger.ReasonNone:
		// Assembly describes some functions by several FDEs (clone, setcontext,
		// poly1305 of OpenSSL): the entry is that of the symbol.
		fn.Excluded = ledger.ReasonColdPart
	case fn.Size == 0 && fn.Addr < m.frameEnd:
		fn.Size = m.frameEnd - fn.Addr // a further entry into what a frame describes
	}
}

// describes reports whether the frames at addr only describe the function before,
// from behind its endbr64 on (the JDK's libjsvml): the entry is the symbol's.
func (m *merger) describes(addr uint32, syms []symbol, frames []frame) bool {
	const endbrLen = 4
	if len(syms) > 0 || len(m.functions) == 0 {
		return false
	}
	at, fn := m.low+uint64(addr), &m.functions[len(m.functions)-1]
	if fn.HasFDE || fn.Source == ledger.SourceEhFrame || at != fn.Addr+endbrLen || at >= fn.Addr+fn.Size {
		return false
	}
	m.frameEnd = max(m.frameEnd, at+addFrames(fn, frames))
	return true
}

// name is a symbol with what decides between several of one address.
type name struct {
	*symbol
	text string
}

// addSymbols gives fn what its symbols tell. Those of the Go table are the last.
func (m *merger) addSymbols(fn *Function, syms []symbol) {
	fn.Source = syms[0].source()
	largest, cold, golang := uint32(0), false, false
	m.names = m.names[:0]
	for i := range syms {
		s := &syms[i]
		if !s.golang() || i == 0 {
			m.names = append(m.names, name{s, m.symbols.name(s)})
		}
		fn.Source = min(fn.Source, s.source())
		golang = golang || s.golang() && s.reason == ledger.ReasonNone
		fn.IFuncResolver = fn.IFuncResolver || s.ifunc()
		largest = max(largest, s.size)
		cold = cold || s.reason == ledger.ReasonColdPart
	}
	m.sortNames()
	best := m.names[0]
	fn.Name, fn.Size, fn.Excluded = best.text, uint64(best.size), best.reason
	if fn.Size == 0 {
		fn.Size = uint64(largest)
	}
	switch {
	case golang && fn.Excluded == ledger.ReasonColdPart: // a function cold of a package
		fn.Excluded = ledger.ReasonNone
	case cold && !golang && best.size == 0: // best has no code, the part follows it
		fn.Excluded = ledger.ReasonColdPart
	}
	from := len(m.aliases)
	for _, n := range m.names[1:] {
		m.aliases = append(m.aliases, n.text)
	}
	if to := len(m.aliases); to > from {
		fn.Aliases = m.aliases[from:to:to]
	}
}

// sortNames puts the name to show first, and leaves each name once; an empty
// one remains only if it is the only one.
func (m *merger) sortNames() {
	if len(m.names) == 1 {
		return
	}
	slices.SortFunc(m.names, func(a, b name) int {
		if len(a.text) != len(b.text) {
			return len(b.text) - len(a.text)
		}
		return cmp.Or(strings.Compare(a.text, b.text), int(a.rank)-int(b.rank))
	})
	m.names = slices.CompactFunc(m.names, func(a, b name) bool { return a.text == b.text })
	if last := len(m.names) - 1; last > 0 && m.names[last].text == "" {
		m.names = m.names[:last]
	}
	slices.SortFunc(m.names, compareNames)
}

// compareNames puts the name to show first.
func compareNames(a, b name) int {
	return cmp.Or(
		compareBool(a.reason == ledger.ReasonColdPart, b.reason == ledger.ReasonColdPart),
		int(a.rank)-int(b.rank),
		compareBool(strings.HasPrefix(a.text, "_"), strings.HasPrefix(b.text, "_")),
		len(a.text)-len(b.text),
		strings.Compare(a.text, b.text),
	)
}

// compareBool puts false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// addFrames gives fn what the FDEs that start at its address tell, and returns
// their size. There is more than one where a linker folded equal functions.
//
// An FDE without a name whose CFA at its start is not rsp+8 is a part. Of
// 304,000 functions of unstripped files (gcc, clang, assembly) none is taken
// for a part so, but those that must never be patched anyway; of the 7,850
// parts 95 % are found. The others start with nothing pushed. To tell them
// from functions takes decoding: they are reached by jumps from one other FDE
// only, at least one of them conditional, and lie among the parts found.
func addFrames(fn *Function, frames []frame) (size uint64) {
	fn.HasFDE = true
	entry, signal := false, false
	for i := range frames {
		d := &frames[i]
		size = max(size, uint64(d.size))
		fn.LSDA = fn.LSDA || d.lsda
		entry = entry || d.start == startEntry
		signal = signal || d.signal
	}
	if fn.Size == 0 {
		fn.Size = size
	}
	switch {
	case signal:
		fn.Excluded = ledger.ReasonSignalReturn
	case !entry && fn.Source == ledger.SourceEhFrame:
		fn.Excluded = ledger.ReasonColdPart
	}
	return size
}

// fillSizes gives each function of unknown size the room up to the next one,
// and lets none reach past the range of code that it starts in.
func fillSizes(functions []Function, sections, text spans) {
	for i := range functions {
		fn := &functions[i]
		s, _ := text.find(fn.Addr)
		room := s.hi - fn.Addr
		if fn.Size != 0 && fn.Size <= room {
			continue
		}
		if s, ok := sections.find(fn.Addr); ok {
			room = min(room, s.hi-fn.Addr)
		}
		fn.Guessed = fn.Size == 0
		if fn.Guessed && i+1 < len(functions) {
			room = min(room, functions[i+1].Addr-fn.Addr)
		}
		fn.Size = room
	}
}
