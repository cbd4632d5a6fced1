package attach

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/procmaps"
)

// memory has some pages from an address on.
type memory struct {
	at uint64
	b  []byte
}

func (m *memory) ReadAt(b []byte, at int64) (int, error) { return copy(b, m.b[uint64(at)-m.at:]), nil }

func (m *memory) put(at, v uint64) { binary.LittleEndian.PutUint64(m.b[at-m.at:], v) }

// context puts what a signal leaves.
func (m *memory) context(at, rsp, fp uint64) {
	m.put(at+ucFlags, 7)
	m.put(at+ucRSP, rsp)
	m.put(at+ucCSGSFS, userSegments)
	m.put(at+ucFPState, fp)
}

// TestStacks: contexts are found on a stack, also on one that a handler was switched from;
// what only looks so is not.
func TestStacks(t *testing.T) {
	const low, size = 0x10000, 3 << 20
	m := &memory{low, make([]byte, size)}
	const alone = low + 3<<20 - 0x4000
	maps := []procmaps.Mapping{
		{Start: low, End: low + 1<<20, Prot: procmaps.ProtRead}, {Start: low + 1<<20, End: alone - 0x1000, Prot: procmaps.ProtRead},
		{Start: alone - 0x1000, End: alone}, {Start: alone, End: low + size, Prot: procmaps.ProtRead},
	}
	const first, second, border = low + 0x1000, low + 1<<20 + 0x40, low + 2<<20 - 100&^7
	m.context(first, low+1<<20+0x10, first+0x400)
	m.context(second, second+0x2000, second+0x440&^63)
	m.context(border, alone+8, (border+0x400)&^63)
	m.context(alone, 0, alone+0x400) // no restorer can be in front of it
	m.context(alone+0x800, 0, alone+0xc00)
	m.context(low+0x100, 0, low+0x500)           // below the pointer
	m.context(low+0x5000, 0, low+0x5400+8)       // not aligned
	m.context(low+0x6000, 0, low+0x5000)         // below it
	m.put(low+0x7000+ucCSGSFS, userSegments)     // nothing else
	m.context(low+0x8000, 0, low+0x8000+128<<10) // too far
	s := newStacks(m, maps)
	words := 0
	s.each = func(uint64) { words++ }
	if err := s.walk(low + 0x800); err != nil {
		t.Fatal(err)
	}
	if want := []uint64{first, second, border, alone + 0x800}; !slices.Equal(s.frames, want) {
		t.Errorf("%#x, not %#x", s.frames, want)
	}
	if min := (size - 0x1000) / 8; words < min-1000 {
		t.Errorf("%d words were looked at", words)
	}
	if err := s.walk(0x1000); err != nil { // no stack at all
		t.Error(err)
	}
}
