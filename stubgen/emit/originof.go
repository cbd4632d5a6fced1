package emit

import (
	"encoding/binary"
	"sort"
)

// OriginOf is where the instruction is that the one at a run address in the arena stands for:
// the first of its function in the count, the one before at a jump back. It is not ok where
// none does: in the common part, in thunks of none, in cold blocks.
func (r *ArenaRef) OriginOf(records, lengths []byte, at uint64) (origin uint64, ok bool) {
	if at < r.At || at >= r.Cold {
		return 0, false
	}
	start := func(i int) uint64 {
		return r.At + uint64(binary.LittleEndian.Uint32(records[i*OriginSize+originAt:]))
	}
	i := sort.Search(len(records)/OriginSize, func(i int) bool { return start(i) > at }) - 1
	if i < 0 {
		return 0, false
	}
	one := r.Read(records[i*OriginSize:(i+1)*OriginSize], lengths)
	if len(one) == 0 {
		return 0, false // damaged
	}
	return one[0].origin(at), true
}

// origin is that of a run address in the run.
func (m *Moved) origin(at uint64) uint64 {
	from, to := m.From, m.At+uint64(m.Count)
	for i := range m.Copies {
		if to += uint64(m.Copies[i]); at < to || i == len(m.Copies)-1 {
			break
		}
		from += uint64(m.Originals[i])
	}
	return from
}
