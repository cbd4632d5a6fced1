package elfscan

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// span is the address range [lo, hi).
type span struct{ lo, hi uint64 }

// spans are sorted and do not overlap.
type spans []span

// sorted sorts s and joins those that overlap.
func (s spans) sorted() spans {
	slices.SortFunc(s, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	out := s[:0]
	for _, r := range s {
		last := len(out) - 1
		switch {
		case r.hi <= r.lo:
		case last >= 0 && r.lo < out[last].hi:
			out[last].hi = max(out[last].hi, r.hi)
		default:
			out = append(out, r)
		}
	}
	return out
}

// find returns the span that holds addr.
func (s spans) find(addr uint64) (span, bool) {
	i := 0
	if len(s) > 1 { // most files have one executable segment
		i = sort.Search(len(s), func(i int) bool { return s[i].hi > addr })
	}
	if i < len(s) && s[i].lo <= addr && addr < s[i].hi {
		return s[i], true
	}
	return span{}, false
}

func (s spans) has(addr uint64) bool {
	_, ok := s.find(addr)
	return ok
}

// addSat is a+b, or the highest number if that is too large.
func addSat(a, b uint64) uint64 {
	if b > math.MaxUint64-a {
		return math.MaxUint64
	}
	return a + b
}

// sortByKey sorts s by key and keeps the order of equals. It is a radix sort:
// the 45,000 FDEs of gcc's cc1 take 1.0 ms, and 3.1 ms by slices.SortFunc, of
// some 8 ms for the whole scan.
func sortByKey[T any](s []T, key func(*T) uint32) {
	low, high, ordered := uint32(math.MaxUint32), uint32(0), true
	for i := range s {
		k := key(&s[i])
		ordered = ordered && k >= high
		low, high = min(low, k), max(high, k)
	}
	if ordered {
		return
	}
	const bits, mask = 11, 1<<11 - 1
	from, to := s, make([]T, len(s))
	for shift := 0; (high-low)>>shift != 0; shift += bits {
		var place [mask + 1]int // of the next element with each digit
		for i := range from {
			place[(key(&from[i])-low)>>shift&mask]++
		}
		sum := 0
		for d, n := range place {
			place[d] = sum
			sum += n
		}
		for i := range from {
			d := (key(&from[i]) - low) >> shift & mask
			to[place[d]] = from[i]
			place[d]++
		}
		from, to = to, from
	}
	copy(s, from) // onto itself after an even number of passes
}
