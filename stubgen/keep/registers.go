// Package keep finds what has to be kept for a function's callers if other code takes its
// place.
package keep

import (
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
//     by way of a PLT, may write all that the ABI lets it (edges.go).
//  2. What its callers may read behind the call before they write it: liveness
//     over the object's code. At its returns a function's callers in turn read what
//     they read, and what the ABI calls results (liveness.go, settle.go).
//  3. Only what had a value before the call: behind a call that may write
//     everything, a register has none until it is written again (defined.go).
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
