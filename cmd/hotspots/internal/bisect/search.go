package bisect

import (
	"errors"
	"math/bits"
	"slices"
)

// maxTogether is how many items a minimal set has before a search gives up:
// behaviour that changes by itself looks like an endless set.
const maxTogether = 32

var errTooMany = errors.New("no small set of functions makes the difference: it comes and goes by itself, or --check is not sure")

// search finds a minimal set of items that is bad.
type search struct {
	bad  func(set []int) (bool, error) // set is sorted
	left func(n int)                   // told how many candidates are left
}

// minimal returns a sorted set of the items 0 to n-1 that is bad and of which
// every item is needed. The caller knows that all together are bad and none at
// all is not.
//
// Its method is the dichotomic search of Hemery, Lecoutre, Sais and Boussemart,
// "Extracting MUCs from Constraint Networks" (ECAI 2006): the shortest prefix
// that is bad ends with an item that is needed; that item is kept, and with it
// the shortest prefix looked for again, until what is kept is bad by itself.
// That takes log2(n)+1 tests for each item of the set, where ddmin (Zeller and
// Hildebrandt, 2002) takes up to n². If badness is not monotone, the set is
// still bad, and no single item can be left out.
func (s *search) minimal(n int) ([]int, error) {
	var kept []int
	end := n // kept and the items below end are bad together
	for {
		if len(kept) == maxTogether {
			return nil, errTooMany
		}
		k, err := s.shortest(kept, end)
		if err != nil {
			return nil, err
		}
		kept = append(kept, k)
		slices.Sort(kept)
		if end = k; end == 0 {
			break
		}
		if alone, err := s.bad(kept); err != nil {
			return nil, err
		} else if alone {
			break
		}
	}
	return s.reduce(kept)
}

// shortest returns the last item of the shortest prefix, of at most end items,
// that is bad together with kept.
func (s *search) shortest(kept []int, end int) (int, error) {
	begin := 0 // kept and the items below begin are not bad
	for end-begin > 1 {
		s.left(end - begin)
		mid := begin + (end-begin)/2
		bad, err := s.bad(withPrefix(mid, kept))
		if err != nil {
			return 0, err
		}
		if bad {
			end = mid
		} else {
			begin = mid
		}
	}
	s.left(1)
	return end - 1, nil
}

// reduce leaves out every item that is not needed. There is none if badness is
// monotone.
func (s *search) reduce(set []int) ([]int, error) {
	for i := 0; len(set) > 1 && i < len(set); {
		less := slices.Delete(slices.Clone(set), i, i+1)
		bad, err := s.bad(less)
		if err != nil {
			return nil, err
		}
		if bad {
			set, i = less, 0
		} else {
			i++
		}
	}
	return set, nil
}

// withPrefix returns the items below n and those of kept, which are not.
func withPrefix(n int, kept []int) []int {
	set := make([]int, n, n+len(kept))
	for i := range set {
		set[i] = i
	}
	return append(set, kept...)
}

// steps is how many tests one item takes to find among n.
func steps(n int) int { return bits.Len(uint(max(n, 1)-1)) + 1 }
