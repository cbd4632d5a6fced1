// Package keep finds what has to be kept for a function's callers if other code takes its
// place.
package keep

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// Compilers know what the functions of a file do to registers (gcc's -fipa-ra,
// clang's -enable-ipra, edge-time optimisation; assembly by hand). The direct caller of
// one keeps values in registers that are the callee's by the ABI, if it and all
// that it calls leave them alone, and may call it with the stack pointer at a
// multiple of 8 only. Code that takes the function's place, compiled for the ABI,
// knows nothing of that.
//
// So for each function of an object this says what has to be kept for its callers:
//
//  1. What it may write: its own instructions, and in turn those of all that it
//     calls or jumps to directly. What cannot be seen, an indirect call or a call
//     by way of a PLT, may write all that the ABI lets it.
//  2. What its callers may read behind the call before they write it: liveness
//     over the object's code. At its returns a function's callers in turn read what
//     they read, and what the ABI calls results.
//  3. Only what had a value before the call: behind a call that may write
//     everything, a register has none until it is written again.
//  4. Kept is what it leaves alone of these.
//
// Where it is not known how code goes on, in 2 everything is read that the
// function, or the ABI's callee, could read. 2 is a fixpoint over all functions:
// what is live at entries and at returns grows until it does not.

// summary is what is known of one function.
type summary struct {
	written  x86.RegSet // by it and all that it calls
	liveIn   x86.RegSet // read by it before it is written
	relied   x86.RegSet // read by its callers behind the call
	exit     x86.RegSet // the same and, by the ABI, its results
	exposed  x86.RegSet // read anywhere in it
	depth    int32      // of a cold part: bytes on the stack at its start, above the return address
	stack    int16      // emit.Keep.Stack
	changed  x86.RegSet // callee-saved registers that it changes for good
	restored x86.RegSet // and those that it gives back somewhere
	returns  bool
	custom   bool // emit.Keep.Custom
	unseen   bool // it may run anything
	shifted  bool // called with the stack pointer at a multiple of 8 only
	wide     bool // it uses vectors of more than 128 bits
	guessed  bool // liveIn takes it that some other function reads all that it could
}

// edge is a direct call or jump from one function to another.
type edge struct {
	from, to int32
	jump     bool
	shifted  bool  // the stack pointer is at a multiple of 8 only
	depth    int32 // of a jump: bytes on the stack
}

// registers works out what Find tells.
type registers struct {
	s     *survey.Survey
	o     *stubgen.Object
	index *stubgen.Index
	sum   []summary
	edges []edge
	first []int32  // by function: its first among edges, which are sorted by to
	flows []flow   // by worker
	tells []bool   // by function
	joins []uint64 // where functions jump into others, sorted
}

// Find says for every function of the object what code in its place must keep, with
// up to workers goroutines; 0 means one for each CPU.
func Find(s *survey.Survey, workers int) []emit.Keep {
	o := s.Object()
	r := &registers{s: s, o: o, index: stubgen.NewIndex(o), sum: make([]summary, len(o.Functions))}
	r.flows = make([]flow, parallel.Workers(workers))
	for w := range r.flows {
		r.flows[w].registers = r
	}
	r.survey()
	r.spread()
	r.conventions()
	r.findTellers()
	r.refine()
	r.shift()
	r.settle()
	keeps := make([]emit.Keep, len(r.sum))
	for i := range r.sum {
		m := &r.sum[i]
		keeps[i] = emit.Keep{Custom: m.custom, Align: m.shifted, Stack: int(m.stack)}
		if !m.unseen {
			keeps[i].Registers = m.relied.And(x86.CallerSaved).Without(m.written)
		}
	}
	return keeps
}

// each has the functions of a list decoded and looked at.
func (r *registers) each(list []int32, look func(f *flow, i int32)) {
	const grain = 64
	parallel.Ranges(len(list), grain, len(r.flows), func(w, first, end int) {
		for _, i := range list[first:end] {
			r.flows[w].decode(int(i))
			look(&r.flows[w], i)
		}
	})
}

// chosen lists functions.
func (r *registers) chosen(which func(i int32, m *summary) bool) (list []int32) {
	for i := range r.sum {
		if which(int32(i), &r.sum[i]) {
			list = append(list, int32(i))
		}
	}
	return list
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

// refine looks again at functions of which the survey, which knew nothing of
// others, had to guess what they read; and at cold parts, whose depth is that of the jumps
// to them.
func (r *registers) refine() {
	for _, l := range r.edges {
		if l.jump && l.depth > 0 && r.isAnyPart(l.to) {
			r.sum[l.to].depth = l.depth
		}
	}
	asked := make([]bool, len(r.sum)) // by those who tell
	for _, l := range r.edges {
		asked[l.to] = asked[l.to] || r.tells[l.from]
	}
	for _, parts := range []bool{true, false} {
		r.each(r.chosen(func(i int32, m *summary) bool { return m.guessed && asked[i] && r.isAnyPart(i) == parts }), func(f *flow, i int32) {
			is, _ := f.liveIn(false)
			f.news = append(f.news, news{i, is})
		})
		r.hear(func(n news) { r.sum[n.of].liveIn = n.is })
	}
	parts := r.chosen(func(i int32, m *summary) bool { return m.depth > 0 })
	r.each(parts, func(f *flow, i int32) {
		m := r.sum[i]
		f.depths(m.depth)
		f.summarise(&m)
		r.sum[i].stack = m.stack
	})
	for w := range r.flows {
		for _, l := range r.flows[w].edges {
			r.sum[l.to].shifted = r.sum[l.to].shifted || l.shifted
		}
	}
	for _, i := range parts {
		for _, l := range r.into(i) {
			r.sum[l.from].stack = max(r.sum[l.from].stack, r.sum[i].stack)
		}
	}
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

// news is what the look at one function tells of another, or of itself.
type news struct {
	of int32
	is x86.RegSet
}

// hear goes through the news of all workers.
func (r *registers) hear(each func(news)) {
	for w := range r.flows {
		for _, n := range r.flows[w].news {
			each(n)
		}
		r.flows[w].news = r.flows[w].news[:0]
	}
}

// findTellers finds the functions whose code can tell what has to be kept: they
// call, or jump to, one that leaves something alone.
func (r *registers) findTellers() {
	r.tells = make([]bool, len(r.sum))
	for _, l := range r.edges {
		m := &r.sum[l.to]
		left := !m.unseen && !x86.CallerSaved.Without(m.written).Empty()
		r.tells[l.from] = r.tells[l.from] || left || r.isAnyPart(l.to)
	}
}

// settle is the fixpoint of what is read behind calls. Who can tell is looked at
// again when more is read behind its own returns.
func (r *registers) settle() {
	for i := range r.sum {
		m := &r.sum[i]
		m.exit = m.narrow(x86.Results)
	}
	todo := r.chosen(func(i int32, _ *summary) bool { return r.tells[i] })
	queued := make([]bool, len(r.sum))
	for len(todo) > 0 {
		r.each(todo, func(f *flow, _ int32) { f.look() })
		todo = todo[:0]
		r.hear(func(n news) {
			m := &r.sum[n.of]
			m.relied = m.relied.Or(n.is)
			if is := m.exit.Or(n.is); is != m.exit {
				m.exit = is
				if r.tells[n.of] && !queued[n.of] {
					queued[n.of] = true
					todo = append(todo, n.of)
				}
			}
		})
		for _, i := range todo {
			queued[i] = false
		}
	}
}

// narrow leaves out what a function without wide vectors does not use.
func (m *summary) narrow(s x86.RegSet) x86.RegSet {
	if !m.wide {
		s.G &= 0xffff
		s.V &= 0xffff
	}
	return s
}

// known is the number of the function whose entry addr is, if what it does can be
// seen.
func (r *registers) known(addr uint64) int32 {
	i := r.index.Find(addr)
	if i < 0 || r.o.Functions[i].Excluded == ledger.ReasonPLT {
		return -1
	}
	return int32(i)
}
