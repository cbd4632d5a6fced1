package translate

import (
	"cmp"
	"slices"
)

// held is a range of the old body that is not free.
type held struct{ low, high uint64 }

// taken is what is not free: what stays, and the bytes at the entry, which its stub
// decides about.
func (p *planner) taken() (list []held) {
	list = append(list, held{p.g.Unit.Entry(), p.open})
	for _, r := range p.runs {
		if low, high := p.g.Insts[r.First].Addr, p.g.Insts[r.End-1].End(); !r.Pushed {
			list = append(list, held{low, high})
		} else if low = p.g.Insts[r.First].End(); low < high {
			list = append(list, held{low, high})
		}
	}
	return list
}

// island finds room for a jump that a short one at from can lead to, and takes it. The
// list is sorted, and stays so.
func (p *planner) island(taken *[]held, from uint64) (uint64, bool) {
	const back, ahead = 128 - shortSize, 127 + shortSize
	for _, r := range p.g.Unit.Ranges {
		low, high := max(r.Low, from-back), min(r.High, from+ahead+jumpSize)
		if low >= high {
			continue
		}
		i, _ := slices.BinarySearchFunc(*taken, low, func(t held, at uint64) int { return cmp.Compare(t.high, at+1) })
		for at := low; at+jumpSize <= high; i++ {
			if i == len(*taken) || (*taken)[i].low >= at+jumpSize {
				*taken = slices.Insert(*taken, i, held{at, at + jumpSize})
				return at, true
			}
			at = max(at, (*taken)[i].high)
		}
	}
	return 0, false
}
