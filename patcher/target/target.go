// Package target is what the planner needs of the process that it plans for. There
// is one for the process that the library is loaded into (target/self); another that
// looks at a process from outside has to answer the same questions. What a plan
// says is applied by the target itself (libdynprof/resident/plans/apply.c).
package target

import (
	"io"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher/place"
)

// Target is a process, as the planner sees it. Addresses are its run addresses.
type Target interface {
	// Maps are all mappings, in the order of their addresses.
	Maps() ([]procmaps.Mapping, error)

	// View is the memory at [at, at+n), which the caller knows to be readable. It
	// is not to be written to, and lasts as long as the target.
	View(at uint64, n int) []byte

	// IsFree reports whether nothing is mapped in [at, at+size).
	IsFree(at, size uint64) bool

	// Hold takes [at, at+size) for good, if nothing is mapped there.
	Hold(at, size uint64) bool

	// Lowest is the least address that may be mapped.
	Lowest() uint64

	// Growth tells what will grow.
	Growth() place.Growth

	// Written lists the pages in [low, high) that are no longer those of their file.
	Written(low, high uint64) ([]uint64, error)

	// Open opens a file by a path that holds where the target is: one that Maps
	// tells, one of its links in /proc, or one of the system's.
	Open(path string) (File, error)

	// Resolve is a path that the target knows an object by, as Maps tells it: from the
	// root, without symbolic links.
	Resolve(path string) (string, error)

	// IsDebugged reports whether a debugger watches.
	IsDebugged() bool

	// Reserve is where the bytes of arenas are written.
	Reserve() ([]byte, error)
}

// File is a file of the target, or what stands in for one.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Identified is a File that can be told from others, and from itself before it was
// changed.
type Identified interface{ Identity() (Identity, error) }

// Identity is what fstat(2) says of a file: times are in nanoseconds.
type Identity struct{ Inode, Size, Mtime, Ctime uint64 }

// Loaded is one object as the dynamic linker lists it.
type Loaded struct {
	Name string     // as in the link map
	Bias uint64     // run address minus ELF virtual address
	Span place.Span // of its segments; of objects that come later, Low is in one of them
	Self bool       // it is this library
}
