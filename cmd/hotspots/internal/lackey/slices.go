package lackey

import (
	"slices"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// mostGranules is how many are kept one by one.
const mostGranules = 1 << 20

// slicer makes slices of accesses, each of so many instructions, the last one but for less.
type slicer struct {
	granule heat.Granule
	each    uint64 // instructions
	add     func(*heat.Slice) (each uint64)

	executed uint64                       // instructions
	end      uint64                       // when that is so many, and there are more, the slice has ended
	touched  map[uint64]heat.What         // granules, in it
	last     [heat.WasExecuted + 1]uint64 // by what was done: the last granule of which that is noted already, and 1
	sorted   []uint64                     // room
	more     []heat.Range                 // what there was no room for
}

// newSlicer is one that gives slices to add, which says how long they are from then on.
func newSlicer(g heat.Granule, each uint64, add func(*heat.Slice) uint64) *slicer {
	return &slicer{granule: g, each: each, end: each, add: add, touched: map[uint64]heat.What{}}
}

// note notes an access. A slice has the accesses of its last instruction.
func (s *slicer) note(a access) {
	if a.What == heat.WasExecuted {
		if s.executed == s.end {
			s.close()
		}
		s.executed++
	}
	first, last := a.address>>s.granule, (a.address+a.bytes-1)>>s.granule
	if first == last && s.last[a.What] == first+1 {
		return
	}
	for ; first <= last; first++ {
		s.touched[first] |= a.What
	}
	s.last[a.What] = last + 1
	if len(s.touched) > mostGranules {
		s.spill()
	}
}

// spill makes ranges of granules.
func (s *slicer) spill() {
	const whatBits = 3 // below the granule's number, as numbers are sorted fastest
	s.sorted = s.sorted[:0]
	for n, what := range s.touched {
		s.sorted = append(s.sorted, n<<whatBits|uint64(what))
	}
	slices.Sort(s.sorted)
	all := make([]heat.Range, 0, len(s.sorted))
	for _, n := range s.sorted {
		all = append(all, heat.Range{First: n >> whatBits, Pages: 1, What: heat.What(n & (1<<whatBits - 1))})
	}
	s.more = heat.Union(s.more, all)
	clear(s.touched)
	clear(s.last[:])
}

// close ends a slice.
func (s *slicer) close() {
	s.spill()
	s.each = s.add(&heat.Slice{Executed: s.executed, Parts: 1, Ranges: s.more})
	s.end = (s.executed/s.each + 1) * s.each
	s.more = nil
}
