package heat

import "math"

// Part is some pages in some of the time: from the first up to, and without, the last, and what
// ran behind so many instructions, up to so many.
type Part struct {
	First, End    uint64 // pages, or those of File.Granule
	After, Before uint64 // instructions
}

// All is all of it.
var All = Part{End: Word.Count(), Before: math.MaxUint64}

// Pages is what was done with each page, or each of File.Granule, in all slices together, with the
// first and the last of them.
func (f *File) Pages() []Range { return f.Within(All) }

// Within is the same of a part; a slice that is in it in part counts as a whole.
func (f *File) Within(part Part) []Range { return f.WithinOf(part, WasRead|WasWritten|WasExecuted) }

// WithinOf is the same, of some of what was done only.
func (f *File) WithinOf(part Part, what What) []Range {
	var lists [][]Range // each of at least twice as many slices as the next
	var sizes []int
	join := func() {
		n := len(lists)
		lists = append(lists[:n-2], Union(lists[n-2], lists[n-1]))
		sizes = append(sizes[:n-2], sizes[n-2]+sizes[n-1])
	}
	f.From(&Cursor{}, func(s *Slice, c *Cursor) bool {
		if !part.Has(s, c.Executed) {
			return c.Executed < part.Before
		}
		number := uint32(c.Number)
		var list []Range
		for _, r := range s.Ranges {
			r.Begin, r.End = number, number
			if r.What &= what; r.What == 0 {
				continue
			}
			if r = r.Clip(part.First, part.End); r.Pages > 0 {
				list = append(list, r)
			}
		}
		lists, sizes = append(lists, list), append(sizes, 1)
		for n := len(sizes); n > 1 && sizes[n-2] <= sizes[n-1]; n-- {
			join()
		}
		return true
	})
	for len(lists) > 1 {
		join()
	}
	if len(lists) == 0 {
		return nil
	}
	return lists[0]
}

// Began is how many instructions had run before those of a slice that began after so many. Where none
// ran in it, what was touched is the last one's before: that may be counted first, and noted then.
func (s *Slice) Began(after uint64) uint64 { return min(after, max(s.Executed, 1)-1) }

// Has reports whether a slice that began after so many instructions is in the time.
func (p *Part) Has(s *Slice, after uint64) bool {
	began := s.Began(after)
	return began < p.Before && max(s.Executed, began+1) > p.After
}

// Clip is what of a range lies from the first page up to, and without, the last; without pages
// if nothing does.
func (r Range) Clip(first, end uint64) Range {
	to := min(r.end(), end)
	r.First = max(r.First, first)
	r.Pages = max(to, r.First) - r.First
	return r
}

// Cursor is a place in front of a slice; the zero value is in front of the first.
type Cursor struct {
	Number   int    // of that slice, from 1, when use is called
	Executed uint64 // instructions before it

	at     int
	before Slice
}

// From calls use with each slice behind a cursor, until that returns false, and moves the
// cursor. Its ranges are the caller's until it returns.
func (f *File) From(c *Cursor, use func(*Slice, *Cursor) bool) {
	for c.at < len(f.slices) {
		_, body, rest, err := cut(f.slices[c.at:])
		next := c.before
		if err == nil {
			next, err = f.next(&c.before, body)
		}
		if err != nil {
			panic("heat: BUG: " + err.Error()) // add has looked at them
		}
		c.Number, c.Executed = c.Number+1, c.before.Executed
		c.at, c.before = len(f.slices)-len(rest), next
		one := next
		one.Ranges = f.keep(next.Ranges)
		if f.Granule > f.Noted {
			one.Ranges = Coarse(nil, one.Ranges, f.Granule-f.Noted)
		}
		if !use(&one, c) {
			return
		}
	}
}
