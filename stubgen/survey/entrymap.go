package survey

import (
	"sync"
	"sync/atomic"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// entryMap answers, for millions of branch targets, whether one lies inside a
// function's window, and takes note of entries that are called. It has one
// byte for each granule of text, small enough to stay in the cache; where
// several functions start in a granule it says so, and the caller looks closer.
type entryMap struct {
	low, high uint64   // of all text
	words     []uint32 // four granules each
	touched   []uint32 // one bit a granule: something arrives there, at no entry
	mu        sync.Mutex
	crowded   map[uint64]bool // entries taken in granules with several starts
}

// granule is the bytes of text that share a byte of the map. Functions are
// mostly aligned to it.
const granule = 16

// A byte of the map.
const (
	mapOffset  = granule - 1 // of the one function that starts here
	mapStart   = 0x10        // a function starts here
	mapCrowded = 0x20        // several do, or its window starts further on
	mapEndbr   = 0x40        // its window starts behind an endbr64
	mapTaken   = 0x80        // it is called or its address is taken; set atomically
)

func newEntryMap(text []stubgen.Segment) *entryMap {
	m := &entryMap{crowded: map[uint64]bool{}}
	if len(text) > 0 {
		m.low = text[0].Addr &^ (4*granule - 1)
		m.high = text[len(text)-1].End()
		m.words = make([]uint32, (m.high-m.low)/(4*granule)+1)
		m.touched = make([]uint32, (m.high-m.low)/(32*granule)+1)
	}
	return m
}

// skim leaves out what leads outside the text.
func (m *entryMap) skim(absolute bool) x86.Skim {
	return x86.Skim{Low: m.low, Size: m.high - m.low, Absolute: absolute}
}

// at returns the byte of addr's granule, 0 outside the text.
func (m *entryMap) at(addr uint64) byte {
	off := addr - m.low
	if off >= m.high-m.low {
		return 0
	}
	return byte(atomic.LoadUint32(&m.words[off/(4*granule)]) >> (off / granule % 4 * 8))
}

func (m *entryMap) set(addr uint64, bits byte) {
	off := addr - m.low
	atomic.OrUint32(&m.words[off/(4*granule)], uint32(bits)<<(off/granule%4*8))
}

// add enters a function whose window is behind a head of so many bytes; not for
// concurrent use.
func (m *entryMap) add(entry uint64, head uint8) {
	if entry-m.low >= m.high-m.low {
		return
	}
	bits := byte(entry%granule) | mapStart
	switch {
	case m.at(entry) != 0, head > endbrLen:
		bits = mapCrowded
	case head == endbrLen:
		bits |= mapEndbr
	}
	m.set(entry, bits)
}

// maybeInside reports whether target may lie strictly inside a window: surely
// if one function starts nearby, perhaps if several do.
func (m *entryMap) maybeInside(target uint64) bool {
	return m.insideOf(m.at(target), target, target&^(granule-1)) ||
		m.insideOf(m.at(target-granule), target, target&^(granule-1)-granule)
}

func (m *entryMap) insideOf(b byte, target, base uint64) bool {
	if b&(mapStart|mapCrowded) != mapStart {
		return b&mapCrowded != 0
	}
	start := base + uint64(b&mapOffset)
	if b&mapEndbr != 0 {
		start += endbrLen
	}
	return target-start-1 < stubgen.WindowSize-1
}

// touch records that something may arrive at addr, which is no entry. Safe for
// concurrent use.
func (m *entryMap) touch(addr uint64) {
	if off := addr - m.low; off < m.high-m.low {
		atomic.OrUint32(&m.touched[off/(32*granule)], 1<<(off/granule%32))
	}
}

// untouched reports whether nothing arrives in [from, to) but at entries.
func (m *entryMap) untouched(from, to uint64) bool {
	for at := from &^ (granule - 1); at < to; at += granule {
		if off := at - m.low; off >= m.high-m.low || m.touched[off/(32*granule)]>>(off/granule%32)&1 != 0 {
			return false
		}
	}
	return true
}

// take records that addr may be called from anywhere. Safe for concurrent use.
func (m *entryMap) take(addr uint64) {
	switch b := m.at(addr); {
	case b&mapCrowded != 0:
		m.mu.Lock()
		m.crowded[addr] = true
		m.mu.Unlock()
		m.touch(addr) // it may be none of the entries
	case b&mapStart != 0 && uint64(b&mapOffset) == addr%granule:
		if b&mapTaken == 0 {
			m.set(addr, mapTaken)
		}
	default:
		m.touch(addr)
	}
}

// taken reports whether the entry was taken.
func (m *entryMap) taken(entry uint64) bool {
	if b := m.at(entry); b&mapCrowded == 0 {
		return b&mapTaken != 0
	}
	return m.crowded[entry]
}
