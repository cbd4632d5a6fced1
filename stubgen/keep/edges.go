package keep

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
)

// edge is a direct call or jump from one function to another.
type edge struct {
	from, to int32
	jump     bool
	shifted  bool  // the stack pointer is at a multiple of 8 only
	depth    int32 // of a jump: bytes on the stack
}

// survey finds what each function does by itself, and the edges.
func (r *registers) survey() {
	all := r.chosen(func(int32, *summary) bool { return true })
	r.each(all, func(f *flow, i int32) {
		f.depths(0)
		f.summarise(&r.sum[i])
		f.convention(&r.sum[i])
		r.sum[i].liveIn, r.sum[i].guessed = f.liveIn(true)
	})
	for w := range r.flows {
		r.edges = append(r.edges, r.flows[w].edges...)
		r.flows[w].edges = nil
		r.joins = append(r.joins, r.flows[w].joins...)
	}
	slices.Sort(r.joins)
	slices.SortFunc(r.edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from), cmp.Compare(a.depth, b.depth))
	})
	r.edges = slices.Compact(r.edges)
	r.first = make([]int32, len(r.sum)+1)
	for _, l := range r.edges {
		r.first[l.to+1]++
	}
	for i := range r.sum {
		r.first[i+1] += r.first[i]
	}
}

// into lists the edges that lead to function i.
func (r *registers) into(i int32) []edge { return r.edges[r.first[i]:r.first[i+1]] }

// spread hands what functions write, and the stack words that they read, on to
// those who call them or jump to them.
func (r *registers) spread() {
	todo := make([]int32, len(r.sum))
	for i := range todo {
		todo[i] = int32(i)
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		from := &r.sum[i]
		for _, l := range r.into(i) {
			to := &r.sum[l.from]
			was := *to
			to.written = to.written.Or(from.written)
			to.unseen = to.unseen || from.unseen
			if l.jump {
				to.stack = max(to.stack, from.stack)
				to.exposed = to.exposed.Or(r.ofPart(i))
			}
			if *to != was {
				todo = append(todo, l.from)
			}
		}
	}
	for i := range r.sum {
		if r.sum[i].unseen {
			r.sum[i].written = r.sum[i].written.Or(x86.CallerSaved)
		}
	}
}

// ofPart is what function i reads, if it is a cold part: a jump table may lead into
// it.
func (r *registers) ofPart(i int32) x86.RegSet {
	if r.isAnyPart(i) {
		return r.sum[i].exposed
	}
	return x86.RegSet{}
}

// isAnyPart reports whether function i is a cold part.
func (r *registers) isAnyPart(i int32) bool {
	return r.s.IsPart(int(i))
}

// shift finds who may be called with the stack pointer at a multiple of 8 only: a
// function that is calls others so, as well as not.
func (r *registers) shift() {
	from := make([][]int32, len(r.sum))
	var todo []int32
	for _, l := range r.edges {
		from[l.from] = append(from[l.from], l.to)
		r.sum[l.to].shifted = r.sum[l.to].shifted || l.shifted
	}
	todo = r.chosen(func(_ int32, m *summary) bool { return m.shifted })
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, to := range from[i] {
			if !r.sum[to].shifted {
				r.sum[to].shifted = true
				todo = append(todo, to)
			}
		}
	}
}
