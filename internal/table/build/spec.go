package build

import (
	"iter"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Spec is what the planner knows when it creates a table.
type Spec struct {
	layout.Identity
	RunID     [16]byte // the same for all tables of one run; zero if none
	Flags     uint32   // Flag*
	Threshold uint64   // the default threshold; 0 is none
	Overhead  uint32   // layout.HdrOverhead
	Program   string   // path of the executable
	Creator   string   // version of dynprof
	Arguments string   // the program's command line; empty if it is not kept
	Listen    string   // address of the endpoint for metrics; empty if there is none
	Objects   []layout.Object
	Functions []layout.Function

	Reserve, ReserveUsed uint64 // of a reserve that is kept, bytes and those taken

	Blocks *Blocks // nil: they are not counted
	Sites  *Sites  // nil: calls are not counted by site; not with Blocks

	// Stream, if set, takes the place of Functions: it yields the same ones
	// each time it is called. 40,000 entries take 4 MB, whose first touch
	// costs more than making them twice.
	Stream iter.Seq[*layout.Function]

	// MaxRows bounds the rows, and so the apparent size of the file, where
	// address space is short. 0 is the most that MaxFileSize allows.
	MaxRows int
	// ShortSpace says that address space is limited: there is less spare capacity.
	ShortSpace bool
	// NoSpare leaves out the capacity for objects that the program loads later.
	NoSpare bool
}

// Blocks are those of functions.
type Blocks struct {
	Each     iter.Seq[*layout.Block] // by function and address
	Ways     iter.Seq[*layout.Way]   // by function
	Loops    iter.Seq[*layout.Loop]  // by function, those of an outer loop before those in it
	Counters layout.BlockCounters
}

// Sites are direct calls that may have counters of their own.
type Sites struct {
	Each     iter.Seq[*layout.Site] // by object, function and address
	Counters layout.BlockCounters
}

// functions yields every function of the ledger.
func (s *Spec) functions() iter.Seq[*layout.Function] {
	if s.Stream != nil {
		return s.Stream
	}
	return func(yield func(*layout.Function) bool) {
		for i := range s.Functions {
			if !yield(&s.Functions[i]) {
				return
			}
		}
	}
}
