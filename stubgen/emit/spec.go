package emit

import "github.com/dynprof/dynprof/internal/x86"

// Spec says what a stub holds. Addresses are link-time.
type Spec struct {
	Entry      uint64     // of the function: branches of what is moved that lead there stay in the stub
	Start      uint64     // first byte of the window
	Moved      int        // bytes from Start that run in the stub
	Size       int        // bytes of the stub
	Front      int        // bytes in front of a redirectable stub (FrontSize), 0 for others
	KeepsFlags bool       // the count keeps the status flags
	Evicted    []Eviction // what runs behind it
	Sites      []Site     // calls among the moved bytes that lead elsewhere than to their callees
	Copy       Copy       // unless nil, what runs behind the count in place of the moved bytes; Size is then the most that all takes
}

// Site is a direct call, or a jump, that leads to the stub of its site when it is moved.
type Site struct {
	Addr uint64 // link-time
	To   x86.RunAddr
}

// Copy is of a whole function: code that somebody lays out himself.
type Copy interface {
	// WriteCopy writes the copy by a, from the function's first instruction behind the
	// window's start on, and tells runs what its instructions stand for. The first run is
	// begun: its count is that of the stub.
	WriteCopy(a *x86.Asm, runs *Runs)
}

// Eviction is a run of a neighbour's instructions that moves to the arena.
type Eviction struct {
	Addr   uint64 // link-time, of its first instruction; the island is 5 bytes behind
	To     uint64 // of a run that ends with a branch: where that must lead in the stub, in the window or its start; else 0
	Offset uint32 // of the copy, from the start of the stub
	Len    uint8  // bytes
	Size   uint8  // bytes of the copy, with the jump behind it
	Trap   bool   // an int3 sends arrivals to the copy, not a jump
}
