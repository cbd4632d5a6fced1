// Package translate says how a whole function can run as a copy, in an arena, with
// counters in it, so that nobody outside can tell.
//
// The copy is of all instructions but those that must be seen where they always were:
// calls, since return addresses are on the stack for all to see, and system calls. They
// stay home: the copy jumps to the original call, and behind it, where it comes back to,
// a jump leads into the copy again. Other places of the old body that control may come
// to, of which data, the unwinder or other functions know, lead there, too.
//
//	home                           copy
//	        jmp stub (entry)       ...
//	        ...                    jmp 1f
//	1:      call foo
//	        jmp 2f                 2: ...
//	        ...
//
// What of the old body neither stays nor leads is free, and has the longer jumps for
// places where only a short one fits.
package translate

import "github.com/dynprof/dynprof/stubgen/flow"

// Home is what stays of a unit's old body, and where it leads into the copy.
type Home struct {
	Graph    *flow.Graph
	Open     uint64    // one past what the patch of the entry overwrites
	Runs     []Run     // by address
	Landings []Landing // by address
}

// Run is instructions that run where they always were: a call or a system call, and
// what follows it up to a place where there is room to lead into the copy, or to the
// function's end.
type Run struct {
	First, End int32 // Graph.Insts[First:End]
	Resume     int32 // instruction of the landing behind it, -1 if nothing goes on there
	Pushed     bool  // the first is a call where a jump into the copy must be, or the entry is overwritten: the copy pushes its return address
}

// Landing is a place of the old body where a jump leads to the copy of an instruction.
type Landing struct {
	Inst   int32  // number of the instruction
	Island uint64 // where the jump is that a short one there leads to; 0: it is there itself
}

// Sizes of jumps, in bytes.
const (
	jumpSize  = 5
	shortSize = 2
)
