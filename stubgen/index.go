package stubgen

import "math"

// Index finds functions by their entries, for millions of calls.
type Index struct {
	low     uint64
	first   []int32  // by block of text: the first function that starts in it or behind
	offsets []uint32 // by function: its entry, from low on
}

// indexBlock is the bytes of text that share an element: a few functions.
const indexBlock = 1024

// NewIndex makes the index of the entries of o.
func NewIndex(o *Object) *Index {
	x := &Index{}
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

// Find returns the number of the function whose entry is target, -1 if there is
// none.
func (x *Index) Find(target uint64) int {
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
