// Package place chooses where arenas lie: near their objects, and out of the way of
// what grows.
package place

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/procmaps"
)

const (
	pageSize = 4096

	// reach is how far a 32-bit displacement leads, less some room for what
	// an instruction refers to beyond an object's ends.
	reach = 1<<31 - 1<<20

	// addressEnd is the end of user space with 4-level paging.
	addressEnd = 1<<47 - pageSize

	// guard is left free between an arena and what lies above it: a stack
	// that grows down, or an object whose neighbour a program expects free.
	guard = 64 << 10
)

// Span is a half-open range of run addresses.
type Span struct{ Low, High uint64 }

// Place finds a free range of size bytes (rounded up to pages) from which all
// of span is within reach, and into which span can reach. It prefers the
// nearest gap below span: above an executable grows the heap. Above, it takes
// what is left in front of the heap; then, if the heap may be moved, the place
// where it would grow to next; and only then the far end, where it would have to
// end. The range is then taken: a further Place does not return it again.
func (s *Space) Place(span Span, size uint64) (uint64, bool) {
	size = (size + pageSize - 1) &^ (pageSize - 1)
	low := uint64(0) // lowest arena start: span.High within reach of it
	if span.High > reach {
		low = span.High - reach
	}
	high := span.Low + reach // one past the highest arena end
	for i := len(s.gaps) - 1; i >= 0; i-- {
		if g := s.gaps[i]; g.High <= span.Low {
			if at, ok := fit(g, low, min(g.High, span.Low), size); ok {
				return s.take(i, at, size), true
			}
		}
	}
	if at, ok := s.above(span, low, min(high, s.heap), size); ok {
		return at, true
	}
	if at, ok := s.lift(low, high, size); ok {
		return at, true
	}
	return s.above(span, low, high, size)
}

// above finds room above span, the far end first: away from the heap.
func (s *Space) above(span Span, low, high, size uint64) (uint64, bool) {
	for i := len(s.gaps) - 1; i >= 0; i-- {
		if g := s.gaps[i]; g.Low >= span.Low {
			if at, ok := fit(g, low, high, size); ok {
				return s.take(i, at, size), true
			}
		}
	}
	return 0, false
}

// lift takes what comes next behind the heap, which then goes on behind that.
func (s *Space) lift(low, high, size uint64) (uint64, bool) {
	at := s.end
	if at == 0 || at < low || at+size+guard > high {
		return 0, false
	}
	for i, g := range s.gaps {
		if g.Low <= at && at+size+guard <= g.High {
			s.end, s.lifted = at+size, at+size
			return s.take(i, at, size), true
		}
	}
	return 0, false
}

// Take takes [at, at+size), if an arena may lie there: nothing else does, nor comes
// there soon. An arena above span, its object, leaves room in front of the heap.
func (s *Space) Take(span Span, at, size uint64) bool {
	if at%pageSize != 0 || at+size < at || at > span.Low && s.heap != 0 && at+size+guard > s.heap {
		return false
	}
	for i, g := range s.gaps {
		if g.Low <= at && at+size <= g.High && size <= g.High-at {
			s.take(i, at, size)
			return true
		}
	}
	return false
}

// Shadow is the address for an arena of a library at which it mostly finds room in every
// program: as far below the library as others' are below theirs. As libraries do not
// overlap, arenas do not, wherever the kernel puts each of them. An arena that is larger
// than its library has none.
func Shadow(span Span, size uint64) (at uint64, ok bool) {
	const distance = 1 << 30
	return (span.Low - distance) &^ (pageSize - 1), size <= span.High-span.Low && span.Low > distance
}

// Slot is another such address: the same distance below the library, by a number that is
// its own. Nearer to it the kernel puts other libraries, and what the target shares with
// its planner.
func Slot(span Span, size uint64, number uint64) uint64 {
	const nearest, slots, step = 512 << 20, 20000, 64 << 10
	return (span.Low - size - nearest - number%slots*step) &^ (pageSize - 1)
}

// Behind is such an address for an arena that is larger than what is below its executable,
// which lies at a low address: the heap starts up to 1 GB further up, at random.
func Behind(span Span) (at uint64) { return (span.High + guard + pageSize - 1) &^ (pageSize - 1) }

// InReach is whether code at both ends of span and of the arena can refer to each other.
func InReach(span Span, at, size uint64) bool {
	return at < span.Low && span.High-at <= reach || at >= span.Low && at+size-span.Low <= reach
}

// HeapEnd is where the heap has to end first, 0 if it stays where it is.
func (s *Space) HeapEnd() uint64 { return s.lifted }

// PlaceAnywhere finds a free range for what no code refers to: at the upper end of a
// large gap, where neither the heap nor a stack comes soon. That is the one below near;
// a library lies above it, and so does an executable, unless it lies at a fixed low
// address: then it is the largest. It is not the largest everywhere: a twin's Go heap
// lies at random in the middle of a gap, and where the target has nothing, some
// programs do not want anything (ThreadSanitizer ends them).
func (s *Space) PlaceAnywhere(near Span, size uint64) (uint64, bool) {
	size = (size + pageSize - 1) &^ (pageSize - 1)
	i := s.large(near)
	if i < 0 {
		return 0, false
	}
	at, ok := fit(s.gaps[i], 0, addressEnd, size)
	if !ok {
		return 0, false
	}
	return s.take(i, at, size), true
}

// large is the number of the nearest large gap below span, or of the largest; -1: there
// is none.
func (s *Space) large(span Span) int {
	const large = 64 << 30
	for i, g := range slices.Backward(s.gaps) {
		if g.High <= span.Low && g.High-g.Low >= large {
			return i
		}
	}
	best := -1
	for i, g := range s.gaps {
		if best < 0 || g.High-g.Low > s.gaps[best].High-s.gaps[best].Low {
			best = i
		}
	}
	return best
}

// fit returns the highest place for size bytes in g within [low, high).
func fit(g Span, low, high, size uint64) (uint64, bool) {
	low, high = max(g.Low, low), min(g.High, high)
	if high < size+guard || high-size-guard < low {
		// A tight gap is taken without the guard.
		if high < size || high-size < low {
			return 0, false
		}
		return (high - size) &^ (pageSize - 1), true
	}
	return (high - size - guard) &^ (pageSize - 1), true
}

// Space is the free address space of a process.
type Space struct {
	gaps []Span
	heap uint64 // where the heap starts: it grows upwards
	end  uint64 // where it ends, in whole pages; 0 if that stays

	lifted uint64 // end, once something was taken behind it
}

// Growth is what of a process will need room where nothing is yet.
type Growth struct {
	Heap    uint64 // where brk(2) starts
	HeapEnd uint64 // where it is, if it may be moved up before the program goes on; else 0
	Stack   uint64 // bytes that the main thread's may come to
	Maps    uint64 // bytes that are left free below each mapping, or half of what is: new ones come there
}

// mostStack is kept free below a stack whose limit is higher, or unknown.
const mostStack = 1 << 30

// NewSpace finds the gaps between mappings, which are in address order; lowest
// is the least address that may be mapped (vm.mmap_min_addr).
func NewSpace(mappings []procmaps.Mapping, lowest uint64, g Growth) *Space {
	end := (g.HeapEnd + pageSize - 1) &^ (pageSize - 1)
	s := &Space{heap: g.Heap, end: end}
	at := (lowest + pageSize - 1) &^ (pageSize - 1)
	for _, m := range mappings {
		start := min(m.Start, addressEnd)
		if m.Path == "[stack]" {
			start -= min(start, max(min(g.Stack, mostStack), m.End-m.Start)-(m.End-m.Start))
		}
		if end != 0 && m.Path == "[heap]" {
			m.End = min(m.End, end) // the twin's has grown
			start = min(start, m.End)
		}
		if start > at {
			s.gaps = append(s.gaps, Span{at, start - min(g.Maps, (start-at)/2)&^(pageSize-1)})
		}
		at = max(at, m.End)
		if at >= addressEnd {
			return s
		}
	}
	s.gaps = append(s.gaps, Span{at, addressEnd})
	return s
}

// take splits gap i around [at, at+size).
func (s *Space) take(i int, at, size uint64) uint64 {
	g := s.gaps[i]
	parts := slices.DeleteFunc([]Span{{g.Low, at}, {at + size, g.High}}, func(p Span) bool { return p.Low >= p.High })
	s.gaps = slices.Replace(s.gaps, i, i+1, parts...)
	return at
}

// Group gathers spans that one arena can serve: neighbours within half the
// reach. It returns, for each group, the indexes of its spans and the span
// around them.
func Group(spans []Span) (groups [][]int, around []Span) {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(spans[a].Low, spans[b].Low) })
	for _, i := range order {
		if n := len(groups); n > 0 && spans[i].High-around[n-1].Low <= reach/2 {
			groups[n-1] = append(groups[n-1], i)
			around[n-1].High = max(around[n-1].High, spans[i].High)
			continue
		}
		groups = append(groups, []int{i})
		around = append(around, spans[i])
	}
	return groups, around
}
