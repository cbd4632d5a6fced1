package heat

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/dynprof/dynprof/internal/table/beside"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Threads is how many are told apart: by the lowest byte of the number of their row in the count table.
const Threads = layout.ShThreads

// Set is some of these, a bit for each.
type Set [Threads / 64]uint64

// Has reports whether one is among them.
func (s *Set) Has(n int) bool { return s[n/64]>>(n%64)&1 != 0 }

// Len is how many they are.
func (s *Set) Len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// Add adds others.
func (s *Set) Add(o *Set) {
	for i := range s {
		s[i] |= o[i]
	}
}

// Who is which threads have read and which have written something.
type Who struct{ Read, Written Set }

// All are both.
func (w *Who) All() Set {
	all := w.Read
	all.Add(&w.Written)
	return all
}

// Add adds others.
func (w *Who) Add(o *Who) {
	w.Read.Add(&o.Read)
	w.Written.Add(&o.Written)
}

// ByWhom is pages that the same threads have touched.
type ByWhom struct {
	First, Pages uint64
	*Who         // nobody changes it
}

// touched is who has touched each page so far.
type touched struct {
	sets  []*Who
	index map[Who]uint32
	of    map[uint64]uint32 // by page: a set's index
}

// note notes that a thread has touched pages.
func (t *touched) note(thread int, r Range) {
	if t.of == nil {
		t.of, t.index, t.sets = map[uint64]uint32{}, map[Who]uint32{{}: 0}, []*Who{{}}
	}
	for page := r.First; page < r.end(); page++ {
		old := t.sets[t.of[page]]
		who := *old
		bit := uint64(1) << (thread % 64)
		if r.What&WasRead != 0 {
			who.Read[thread/64] |= bit
		}
		if r.What&WasWritten != 0 {
			who.Written[thread/64] |= bit
		}
		if who == *old {
			continue
		}
		i, known := t.index[who]
		if !known {
			i = uint32(len(t.sets))
			t.sets = append(t.sets, &who)
			t.index[who] = i
		}
		t.of[page] = i
	}
}

// take takes what is in the shadows of threads, by page, out of what is in all together.
func (t *touched) take(all []Range) (list []Range) {
	const pageBits = layout.ShBits - layout.ShPage
	var lists [Threads][]Range
	for _, r := range all {
		for r.Pages > 0 {
			thread := r.First >> pageBits
			one := r
			one.First &= Pages - 1
			one.Pages = min(r.Pages, Pages-one.First)
			r.First, r.Pages = r.First+one.Pages, r.Pages-one.Pages
			lists[thread] = append(lists[thread], one)
			t.note(int(thread), one)
		}
	}
	for _, one := range lists {
		if len(one) > 0 {
			list = Union(list, one)
		}
	}
	return list
}

// record is who has touched which page, as the file has it: sets, and the pages of each.
func (t *touched) record() []byte {
	var pages []uint64
	for page := range t.of {
		pages = append(pages, page)
	}
	slices.Sort(pages)
	var body []byte
	body = binary.AppendUvarint(body, uint64(len(t.sets)))
	for _, w := range t.sets {
		for _, s := range []*Set{&w.Read, &w.Written} {
			for _, word := range s {
				body = binary.AppendUvarint(body, word)
			}
		}
	}
	end := uint64(0)
	for i := 0; i < len(pages); {
		n := 1
		for i+n < len(pages) && pages[i+n] == pages[i]+uint64(n) && t.of[pages[i+n]] == t.of[pages[i]] {
			n++
		}
		for _, number := range []uint64{pages[i] - end, uint64(n), uint64(t.of[pages[i]])} {
			body = binary.AppendUvarint(body, number)
		}
		end = pages[i] + uint64(n)
		i += n
	}
	return beside.AppendPart(nil, recordWho, body)
}

// parseWho reads it.
func parseWho(body []byte) (list []ByWhom, err error) {
	n := numbers{body: body}
	count := n.take()
	if count > uint64(len(n.body)/(2*len(Set{}))) { // each has a byte for a number, or more
		return nil, errDamaged
	}
	sets := make([]Who, count)
	for i := range sets {
		for _, s := range []*Set{&sets[i].Read, &sets[i].Written} {
			for k := range s {
				s[k] = n.take()
			}
		}
	}
	for end := uint64(0); !n.short && len(n.body) > 0; {
		gap, pages, set := n.take(), n.take(), n.take()
		if n.short || gap > Pages-end || pages == 0 || pages > Pages-end-gap || set >= count {
			return nil, errDamaged
		}
		list = append(list, ByWhom{end + gap, pages, &sets[set]})
		end += gap + pages
	}
	if n.short {
		return nil, errDamaged
	}
	return list, nil
}

// WhoIn is who has touched any of some pages, up to, and without, the last; nil if nobody is known to.
func (f *File) WhoIn(first, end uint64) (all *Who) {
	i, _ := slices.BinarySearchFunc(f.Who, first, func(b ByWhom, at uint64) int { return cmp.Compare(b.First+b.Pages-1, at) })
	for ; i < len(f.Who) && f.Who[i].First < end; i++ {
		switch {
		case all == nil:
			one := *f.Who[i].Who
			all = &one
		default:
			all.Add(f.Who[i].Who)
		}
	}
	return all
}
