package plancache

// Elsewhere is a process in which all is otherwise on which stubs depend: the first
// counter is number 1, not 0, and the object lies further up, with its arena.
type Elsewhere struct {
	Stubs []byte
	Up    uint64                               // by so many bytes, whose lowest eight bits alone are 0
	Entry func(kind uint32, other bool) uint64 // what an entry of a kind is, here and there
}

// AddFixups finds out what of the stubs, which are those of an object at bias, depends on
// the process. It reports false where something else differs.
func (p *Plan) AddFixups(bias uint64, other *Elsewhere) bool {
	for at, end := 0, 0; at < len(p.Stubs); {
		if p.Stubs[at] == other.Stubs[at] {
			at++
			continue
		}
		from, kind := p.fixupAt(at, other)
		if from < end {
			return false
		}
		p.Fixups = le.AppendUint32(le.AppendUint32(p.Fixups, uint32(from)), kind)
		if kind == FixReturn {
			le.PutUint64(p.Stubs[from:], le.Uint64(p.Stubs[from:])-bias)
		}
		if end = from + 4; kind > FixIndex {
			end = from + 8
		}
		at = end
	}
	return true
}

// fixupAt is where the word is whose first byte that differs is at; -1: nowhere. That is
// a word's first byte, but of an address in the object its second: Up ends in zeros.
func (p *Plan) fixupAt(at int, other *Elsewhere) (from int, kind uint32) {
	if from = at - 1; from >= 0 && from+8 <= len(p.Stubs) && le.Uint64(other.Stubs[from:])-le.Uint64(p.Stubs[from:]) == other.Up {
		return from, FixReturn
	}
	if at+8 <= len(p.Stubs) {
		a, b := le.Uint64(p.Stubs[at:]), le.Uint64(other.Stubs[at:])
		for kind = FixSlow; kind <= FixChanged; kind++ {
			if a == other.Entry(kind, false) && b == other.Entry(kind, true) {
				return at, kind
			}
		}
	}
	if at+4 <= len(p.Stubs) {
		switch le.Uint32(other.Stubs[at:]) - le.Uint32(p.Stubs[at:]) {
		case 8:
			return at, FixCounter
		case 1:
			return at, FixIndex
		}
	}
	return -1, 0
}
