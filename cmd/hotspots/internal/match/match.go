// Package match finds the functions of one build of an object in another.
package match

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/bodyhash"
)

// By is how two functions were found to be the same.
type By string

// Ways to find one, the surest first.
const (
	ByAddress By = "address" // in the same build
	ByName    By = "name"
	ByBody    By = "body"    // the same code, and only these two have it, or beside the same functions
	ByCaller  By = "caller"  // the same instruction of the same code refers to it, and most of its code is the same
	BySimilar By = "similar" // between the same functions, and most of its code is the same: a guess

	New  By = "new"  // only the later build has it
	Gone By = "gone" // only the earlier
)

// Function is what is known of a function of a build.
type Function struct {
	Address uint64
	Size    uint64
	Name    string // as in the file; empty if it has none
	Shown   string // as it is shown, without what differs from build to build
	Body    bodyhash.Body
}

// Pair is a function of one build and the same of the other, by their indices.
type Pair struct {
	A, B int
	By   By
}

// Functions pairs the functions of two builds, each at most once.
func Functions(a, b []Function) []Pair {
	m := &matcher{a: newSide(a), b: newSide(b)}
	m.unique(ByName, func(f *Function) string { return f.Name })
	m.unique(ByName, func(f *Function) string { return f.Shown })
	m.unique(ByBody, func(f *Function) string { return text(f.Body.Linked) })
	m.unique(ByBody, func(f *Function) string { return text(f.Body.Plain) })
	m.referred()
	for m.neighbours() {
		m.referred()
	}
	m.similar()
	return m.pairs
}

func text(h bodyhash.Hash) string {
	if h == (bodyhash.Hash{}) {
		return ""
	}
	return string(h[:])
}

type matcher struct {
	a, b  side
	pairs []Pair
}

// side is one build: its functions by address, and whom each has been found to be.
type side struct {
	all   []Function
	order []int // by address
	place []int // in order
	found []int // index on the other side, or -1
}

func newSide(all []Function) side {
	s := side{all: all, order: make([]int, len(all)), place: make([]int, len(all)), found: make([]int, len(all))}
	for i := range all {
		s.order[i], s.found[i] = i, -1
	}
	slices.SortFunc(s.order, func(i, k int) int { return cmp.Or(cmp.Compare(all[i].Address, all[k].Address), i-k) })
	for place, i := range s.order {
		s.place[i] = place
	}
	return s
}

func (m *matcher) pair(a, b int, by By) {
	m.a.found[a], m.b.found[b] = b, a
	m.pairs = append(m.pairs, Pair{a, b, by})
}

// unique pairs functions that nobody else shares the key with on either side.
func (m *matcher) unique(by By, key func(*Function) string) {
	a, b := m.a.byKey(key), m.b.byKey(key)
	for _, i := range m.a.order {
		if m.a.found[i] >= 0 {
			continue
		}
		k := key(&m.a.all[i])
		if k != "" && a[k] == i && has(b, k) {
			m.pair(i, b[k], by)
		}
	}
}

func has(all map[string]int, key string) bool {
	i, ok := all[key]
	return ok && i >= 0
}

// byKey are the functions that are not found yet by their key; -1 of several.
func (s *side) byKey(key func(*Function) string) map[string]int {
	all := map[string]int{}
	for i := range s.all {
		if s.found[i] >= 0 {
			continue
		}
		k := key(&s.all[i])
		if _, ok := all[k]; ok {
			i = -1
		}
		all[k] = i
	}
	return all
}

// neighbours pairs those of several with the same code that lie beside a pair on either
// side. It says whether there were any: each makes more neighbours.
func (m *matcher) neighbours() bool {
	before := len(m.pairs)
	for _, step := range []int{1, -1} {
		for k := range m.a.order {
			if step < 0 {
				k = len(m.a.order) - 1 - k
			}
			i := m.a.order[k]
			if m.a.found[i] < 0 {
				continue
			}
			next, other := m.a.beside(i, step), m.b.beside(m.a.found[i], step)
			if next < 0 || other < 0 || m.a.found[next] >= 0 || m.b.found[other] >= 0 {
				continue
			}
			if f, g := &m.a.all[next], &m.b.all[other]; f.Body.Known() && f.Body.Plain == g.Body.Plain && alike(f, g) {
				m.pair(next, other, ByBody)
			}
		}
	}
	return len(m.pairs) > before
}

func (s *side) beside(i, step int) int {
	if p := s.place[i] + step; p >= 0 && p < len(s.order) {
		return s.order[p]
	}
	return -1
}

// alike reports whether names do not speak against it.
func alike(f, g *Function) bool { return f.Name == "" || g.Name == "" }

// referred pairs what two functions of the same code name at the same place in it.
func (m *matcher) referred() {
	at := m.b.byAddress()
	from := m.a.byAddress()
	for next := 0; next < len(m.pairs); next++ { // each pair may make more
		f, g := &m.a.all[m.pairs[next].A], &m.b.all[m.pairs[next].B]
		if !f.Body.Known() || f.Body.Plain != g.Body.Plain {
			continue
		}
		for k, to := range f.Body.Refers {
			i, known := from[to]
			other, too := at[g.Body.Refers[k]]
			if !known || !too || m.a.found[i] >= 0 || m.b.found[other] >= 0 {
				continue
			}
			// One may have been replaced by another.
			if f, g := &m.a.all[i], &m.b.all[other]; alike(f, g) && bodyhash.Likeness(&f.Body, &g.Body) >= leastLikeness {
				m.pair(i, other, ByCaller)
			}
		}
	}
}

func (s *side) byAddress() map[uint64]int {
	all := make(map[uint64]int, len(s.all))
	for i := range s.all {
		all[s.all[i].Address] = i
	}
	return all
}

const (
	leastLikeness = 0.5     // of a function that was changed
	mostCompared  = 1 << 12 // functions of one gap with those of the other
)

// similar pairs what is left between the same neighbours, the most alike first: in a build of
// changed source these are mostly the functions that were changed, since compilers and
// linkers keep the order.
func (m *matcher) similar() {
	for _, gap := range m.gaps() {
		if len(gap.a)*len(gap.b) > mostCompared {
			continue
		}
		type candidate struct {
			a, b int
			like float64
		}
		var all []candidate
		for _, i := range gap.a {
			for _, k := range gap.b {
				f, g := &m.a.all[i], &m.b.all[k]
				if like := bodyhash.Likeness(&f.Body, &g.Body); like >= leastLikeness && alike(f, g) {
					all = append(all, candidate{i, k, like})
				}
			}
		}
		slices.SortStableFunc(all, func(x, y candidate) int { return cmp.Compare(y.like, x.like) })
		for _, c := range all {
			if m.a.found[c.a] < 0 && m.b.found[c.b] < 0 {
				m.pair(c.a, c.b, BySimilar)
			}
		}
	}
}

// gap is the functions that are left between two pairs that follow each other on both sides.
type gap struct{ a, b []int }

func (m *matcher) gaps() (all []gap) {
	var left []int
	last := -1 // place on the other side
	between := func(end int) {
		var others []int
		for k := last + 1; k < end; k++ {
			if i := m.b.order[k]; m.b.found[i] < 0 {
				others = append(others, i)
			} else {
				return // something else was moved here
			}
		}
		if len(left) > 0 && len(others) > 0 {
			all = append(all, gap{left, others})
		}
	}
	for _, i := range m.a.order {
		other := m.a.found[i]
		if other < 0 {
			left = append(left, i)
			continue
		}
		between(m.b.place[other])
		left, last = nil, m.b.place[other]
	}
	between(len(m.b.order))
	return all
}
