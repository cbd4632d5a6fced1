package stubgen

import "sync/atomic"

// bitmap holds one bit for each byte of text.
type bitmap struct {
	segs []bitSegment
}

type bitSegment struct {
	addr, size uint64
	bits       []uint64
}

func newBitmap(text []Segment) bitmap {
	var b bitmap
	for _, s := range text {
		n := uint64(len(s.Code))
		b.segs = append(b.segs, bitSegment{s.Addr, n, make([]uint64, (n+63)/64)})
	}
	return b
}

// set marks [low, high), which may run over a segment's end.
func (b *bitmap) set(low, high uint64) {
	for addr := low; addr < high; addr++ {
		for i := range b.segs {
			if off := addr - b.segs[i].addr; off < b.segs[i].size {
				b.segs[i].bits[off/64] |= 1 << (off % 64)
			}
		}
	}
}

// setAtomic marks one address; others may do so at the same time.
func (b *bitmap) setAtomic(addr uint64) {
	for i := range b.segs {
		if off := addr - b.segs[i].addr; off < b.segs[i].size {
			word, bit := &b.segs[i].bits[off/64], uint64(1)<<(off%64)
			if atomic.LoadUint64(word)&bit == 0 { // mostly: many calls of one function
				atomic.OrUint64(word, bit)
			}
		}
	}
}

func (b *bitmap) has(addr uint64) bool {
	for i := range b.segs {
		if off := addr - b.segs[i].addr; off < b.segs[i].size {
			return b.segs[i].bits[off/64]>>(off%64)&1 != 0
		}
	}
	return false
}
