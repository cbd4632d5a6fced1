package table

import (
	"cmp"
	"slices"
	"sort"

	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// spans are counters, by what follows each other: where blocks are counted those of functions
// are not the only ones, and those of what came later are behind others.
type spans []span

type span struct {
	first, end uint32
	before     uint32 // counters in the spans before it
}

// add adds a counter.
func (s *spans) add(counter uint32) {
	if n := len(*s); n > 0 && (*s)[n-1].end == counter {
		(*s)[n-1].end++
		return
	}
	*s = append(*s, span{first: counter, end: counter + 1})
}

// inOrder is s when all are added; a damaged table may have told one twice.
func (s spans) inOrder() spans {
	slices.SortFunc(s, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	all := s[:0]
	for _, n := range s {
		if k := len(all) - 1; k >= 0 && n.first <= all[k].end {
			all[k].end = max(all[k].end, n.end)
			continue
		}
		n.before = uint32(all.count())
		all = append(all, n)
	}
	return all
}

// count is how many counters there are.
func (s spans) count() int {
	if len(s) == 0 {
		return 0
	}
	last := &s[len(s)-1]
	return int(last.before + last.end - last.first)
}

// from is the first span that does not end before a counter.
func (s spans) from(counter uint64) int {
	return sort.Search(len(s), func(i int) bool { return uint64(s[i].end) > counter })
}

// place is the number of a counter among all; false if it is none of them.
func (s spans) place(counter uint32) (uint32, bool) {
	i := s.from(uint64(counter))
	if i == len(s) || counter < s[i].first {
		return 0, false
	}
	return s[i].before + counter - s[i].first, true
}

// Calls is the sum of those of the sums of all counters that are calls of functions.
func Calls(f *file.File, sums []uint64) (calls uint64, err error) {
	all := spans(nil)
	err = f.EachEntry(f.Geometry.Functions, func(b []byte) error {
		if counter := le.Uint32(b[layout.FnCounter:]); counter < uint32(len(sums)) {
			all.add(counter)
		}
		return nil
	})
	for _, s := range all.inOrder() {
		for _, n := range sums[s.first:s.end] {
			calls += n
		}
	}
	return calls, err
}
