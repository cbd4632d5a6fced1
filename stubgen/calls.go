package stubgen

import (
	"iter"
	"math"

	"github.com/dynprof/dynprof/internal/ledger"
)

// CallSize is the length of the calls that the survey notes: `call rel32` without
// a prefix.
const CallSize = 5

// Call is a direct call at link-time address At in function From to the entry of
// function To.
type Call struct {
	At       uint64
	From, To int32
}

// Calls goes through the noted calls (Object.NoteCalls) in the order of From. It
// leaves out what may be none, or must stay.
func (s *Survey) Calls() iter.Seq[Call] {
	const doubtful = hasGap | isNested | isOverlapped | isMisplaced
	return func(yield func(Call) bool) {
		for _, run := range s.calls {
			for _, c := range run {
				if s.facts[c.From].traits&doubtful == 0 && s.fixedIn(c.At, c.At+CallSize) == ledger.ReasonNone && !yield(c) {
					return
				}
			}
		}
	}
}

// entryIndex finds functions by their entries, for millions of calls.
type entryIndex struct {
	low     uint64
	first   []int32  // by block of text: the first function that starts in it or behind
	offsets []uint32 // by function: its entry, from low on
}

// indexBlock is the bytes of text that share an element: a few functions.
const indexBlock = 1024

func newEntryIndex(o *Object) *entryIndex {
	x := &entryIndex{}
	if len(o.Functions) == 0 {
		return x
	}
	x.low = o.Functions[0].Addr
	x.offsets = make([]uint32, 0, len(o.Functions))
	for i := range o.Functions {
		offset := o.Functions[i].Addr - x.low
		if offset > math.MaxUint32 {
			break // far calls do not reach there
		}
		for uint64(len(x.first)) <= offset/indexBlock {
			x.first = append(x.first, int32(i))
		}
		x.offsets = append(x.offsets, uint32(offset))
	}
	return x
}

// find returns the number of the function whose entry is target, -1 if there is
// none.
func (x *entryIndex) find(target uint64) int {
	offset := target - x.low
	if offset/indexBlock >= uint64(len(x.first)) {
		return -1
	}
	for i := int(x.first[offset/indexBlock]); i < len(x.offsets) && uint64(x.offsets[i]) <= offset; i++ {
		if uint64(x.offsets[i]) == offset {
			return i
		}
	}
	return -1
}
