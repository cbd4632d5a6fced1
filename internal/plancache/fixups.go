package plancache

// Elsewhere is a process in which all is otherwise on which stubs depend: the first
// counter is the next one, the first of a block's is ElsewhereBlocks later, the first
// instruction's number ElsewhereCodes, entries are
// the complements of what they are here, and the object lies further up, with its arena.
type Elsewhere struct {
	Stubs         []byte
	Up            uint64                   // by so many bytes, whose lowest eight bits alone are 0
	First         uint32                   // the object's first counter here,
	FirstOfBlocks uint32                   // and the first that is a block's,
	Codes         uint32                   // and the number of its first instruction
	Entry         func(kind uint32) uint64 // what an entry of a kind is here
}

// ElsewhereBlocks is how much further on blocks' counters begin elsewhere.
const ElsewhereBlocks = 3

// ElsewhereCodes is by how much numbers of instructions are greater elsewhere.
const ElsewhereCodes = 5

// AddFixups finds out what of the stubs, which are those of an object at bias, depends on
// the process, and takes it out. It reports false where something else differs.
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
		word := p.Stubs[from:]
		switch end = from + 8; kind {
		case FixCounter:
			le.PutUint32(word, le.Uint32(word)-8*other.First)
			end = from + 4
		case FixBlock:
			le.PutUint32(word, le.Uint32(word)-8*other.FirstOfBlocks)
			end = from + 4
		case FixIndex:
			le.PutUint32(word, le.Uint32(word)-other.First)
			end = from + 4
		case FixCode:
			le.PutUint32(word, le.Uint32(word)-other.Codes)
			end = from + 4
		case FixReturn:
			le.PutUint64(word, le.Uint64(word)-bias)
		default:
			le.PutUint64(word, 0)
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
		for kind = FixSlow; kind <= FixTransfer; kind++ {
			if a == other.Entry(kind) && b == ^a {
				return at, kind
			}
		}
	}
	if at+4 <= len(p.Stubs) {
		switch le.Uint32(other.Stubs[at:]) - le.Uint32(p.Stubs[at:]) {
		case 8:
			return at, FixCounter
		case 8 * ElsewhereBlocks:
			return at, FixBlock
		case 1:
			return at, FixIndex
		case ElsewhereCodes:
			return at, FixCode
		}
	}
	return -1, 0
}
