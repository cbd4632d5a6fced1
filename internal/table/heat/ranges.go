package heat

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// What is done with a granule.
type What uint8

// Each of these, or several.
const (
	WasRead What = 1 << iota
	WasWritten
	WasExecuted
)

const whatBits = 3

// Pages is how many there are.
const Pages = 1 << (layout.ShBits - layout.ShPage)

// Range is pages, or smaller granules, one behind the other, with which the same was done.
type Range struct {
	First uint64 // address by their size
	Pages uint64
	What
	Begin, End uint32 // the first and the last slice in which it was done, from 1; in a slice 0
}

func (r *Range) end() uint64 { return r.First + r.Pages }

// follows reports whether r is to be one with the range before it.
func (r *Range) follows(b *Range) bool {
	return b.end() == r.First && b.What == r.What && b.Begin == r.Begin && b.End == r.End
}

// add puts a range behind others.
func add(to []Range, r Range) []Range {
	if n := len(to); n > 0 && r.follows(&to[n-1]) {
		to[n-1].Pages += r.Pages
		return to
	}
	return append(to, r)
}

// Union is what was done with granules in either of two lists, each by address: in memory by their
// lengths, and not by that of what they span.
func Union(a, b []Range) []Range {
	to := make([]Range, 0, max(len(a), len(b)))
	var left, right Range // what is not taken of a's and of b's first
	next := func(from *[]Range) (r Range) {
		if len(*from) > 0 {
			r, *from = (*from)[0], (*from)[1:]
		}
		return r
	}
	left, right = next(&a), next(&b)
	for left.Pages > 0 && right.Pages > 0 {
		if right.First < left.First {
			left, right, a, b = right, left, b, a
		}
		one := left
		switch {
		case left.First < right.First:
			one.Pages = min(left.end(), right.First) - left.First
		default:
			one.Pages = min(left.Pages, right.Pages)
			one.What |= right.What
			one.Begin, one.End = first(left.Begin, right.Begin), max(left.End, right.End)
			right.First, right.Pages = right.First+one.Pages, right.Pages-one.Pages
		}
		left.First, left.Pages = left.First+one.Pages, left.Pages-one.Pages
		to = add(to, one)
		if left.Pages == 0 {
			left = next(&a)
		}
		if right.Pages == 0 {
			right = next(&b)
		}
	}
	for ; left.Pages > 0; left = next(&a) {
		to = add(to, left)
	}
	for ; right.Pages > 0; right = next(&b) {
		to = add(to, right)
	}
	return to
}

// Unnumbered is ranges of which nobody asks when they were touched.
func Unnumbered(all []Range) []Range {
	for i := range all {
		all[i].Begin, all[i].End = 0, 0
	}
	return Union(all, nil)
}

// first is the lower one of two slices, of which 0 is none.
func first(a, b uint32) uint32 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Flat is ranges with which the same was done, in any order and one upon another, by address.
func Flat(all []Range) (to []Range) {
	slices.SortFunc(all, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	for _, r := range all {
		if n := len(to); n > 0 && r.First <= to[n-1].end() {
			to[n-1].Pages = max(to[n-1].end(), r.end()) - to[n-1].First
		} else {
			to = append(to, r)
		}
	}
	return to
}

// OfBlock is the granules of instructions that have run, if there can be such.
func (g Granule) OfBlock(address uint64, size uint32) (r Range, ok bool) {
	last := (address + uint64(size) - 1) >> g
	r = Range{First: address >> g, What: WasExecuted}
	r.Pages = last - r.First + 1
	return r, size > 0 && last >= r.First && last < g.Count()
}

// Coarse is what was done with granules of 1<<by of those of a list, by address, behind others.
func Coarse(to, list []Range, by Granule) []Range {
	for _, r := range list {
		last := (r.end() - 1) >> by
		r.First >>= by
		if n := len(to); n > 0 && to[n-1].end() > r.First { // the last of that has both
			both := to[n-1]
			if to[n-1].Pages--; to[n-1].Pages == 0 {
				to = to[:n-1]
			}
			both.First, both.Pages = r.First, 1
			both.What |= r.What
			both.Begin, both.End = first(both.Begin, r.Begin), max(both.End, r.End)
			to = add(to, both)
			r.First++
		}
		if r.Pages = last + 1 - r.First; r.Pages > 0 {
			to = add(to, r)
		}
	}
	return to
}
