package table

import (
	"iter"
	"time"

	"github.com/dynprof/dynprof/internal/ledger"
)

// Object is one mapped ELF file of the program.
type Object struct {
	Path    string // resolved path, or a name like [vdso]
	BuildID string // hex digits; empty if it has none
	Bias    uint64 // run address minus ELF virtual address
	Arena   uint64 // run address that Function.Stub counts from
	Low     uint64 // lowest mapped run address
	High    uint64 // one past the highest
	Flags   uint32 // Obj*
	Reason  ledger.Reason
	Reserve uint64 // offset of its arena in the reserve that is kept + 1; 0: not there
}

// Function is one entry of the ledger.
type Function struct {
	Address   uint64   // ELF virtual address
	Size      uint32   // bytes
	Name      string   // as in the ELF file; empty if it has none
	Aliases   []string // other names of the same address
	Counter   uint32   // index in each row, or NoCounter
	Stub      uint32   // offset of its stub from Object.Arena
	Threshold uint32   // calls at which it fires; 0 is never
	Object    uint16   // index in Objects
	StubSize  uint16   // bytes
	Source    ledger.Source
	Tactic    ledger.Tactic
	Reason    ledger.Reason
	Count     uint8 // bytes of the count at the stub's beginning
}

// Counted reports whether calls of f are counted.
func (f *Function) Counted() bool {
	return f.Tactic != ledger.TacticNone && f.Counter != NoCounter
}

// Identity says which process a table belongs to, so that a later process
// with the same number is not taken for it.
type Identity struct {
	Pid        uint32 // as the program saw itself
	UID        uint32
	StartTicks uint64 // field 22 of /proc/PID/stat (proc(5))
	BootID     [16]byte
	PidNS      uint64    // inode of the pid namespace
	Realtime   time.Time // when the table was made
	Monotonic  uint64    // CLOCK_MONOTONIC ns at the same moment
}

// Spec is what the planner knows when it creates a table.
type Spec struct {
	Identity
	RunID     [16]byte // the same for all tables of one run; zero if none
	Flags     uint32   // Flag*
	Threshold uint64   // the default threshold; 0 is none
	Program   string   // path of the executable
	Creator   string   // version of dynprof
	Listen    string   // address of the endpoint for metrics; empty if there is none
	Objects   []Object
	Functions []Function

	Reserve, ReserveUsed uint64 // of a reserve that is kept, bytes and those taken

	// Stream, if set, takes the place of Functions: it yields the same ones
	// each time it is called. 40,000 entries take 4 MB, whose first touch
	// costs more than making them twice.
	Stream iter.Seq[*Function]

	// MaxRows bounds the rows, and so the apparent size of the file, where
	// address space is short. 0 is the most that MaxFileSize allows.
	MaxRows int
	// ShortSpace says that address space is limited: there is less spare capacity.
	ShortSpace bool
	// NoSpare leaves out the capacity for objects that the program loads later.
	NoSpare bool
}

// functions yields every function of the ledger.
func (s *Spec) functions() iter.Seq[*Function] {
	if s.Stream != nil {
		return s.Stream
	}
	return func(yield func(*Function) bool) {
		for i := range s.Functions {
			if !yield(&s.Functions[i]) {
				return
			}
		}
	}
}

// Ended says how a program ended, as its runner saw it.
type Ended struct {
	Kind uint32 // EndedUnknown, EndedExit, EndedSignal
	Code uint32 // exit status or signal number
	Time time.Time
}

// Header is what a table says about its program.
type Header struct {
	Identity
	Nonce     [16]byte // random, to tell two files of one name apart
	RunID     [16]byte
	State     uint32 // StateBuilding, StateLive
	Flags     uint32
	Threshold uint64
	Program   string
	Creator   string
	Listen    string // address of the endpoint for metrics; empty if there is none
	Ended     Ended
	Snapshot  time.Time // when the copy was made, if it is one
	Unlisted  Unlisted  // as far as hotspots run has seen some
}
