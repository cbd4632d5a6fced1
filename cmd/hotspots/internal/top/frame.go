// Package top is the view of a program that counts: what is shown after which readings and
// keys. It reads nothing and has no terminal (packages live and screen).
package top

import (
	"path/filepath"
	"time"

	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Frame is one reading of a program. It must not change any more.
type Frame struct {
	Book      *Book
	Time      time.Time
	Calls     []uint64         // by function, since the last reset
	Hot       func(i int) bool // whether a function has crossed its threshold
	Total     uint64           // calls of all functions
	Times     []uint64         // CPU time of each function itself, ns, sampled since the start; nil if it is not
	TotalTime uint64           // of all, and of what is in no ledger
	Threads   []Thread         // that have counted; their calls add up to Total
	Counting  int              // threads that count now
	Reset     time.Time        // when the counts were reset; zero if they were not
	Threshold uint64
	Events    []Event   // functions that crossed their thresholds, by time
	State     string    // "running", "exited with status 0"
	Running   bool      // or it may be: its end is not known
	Remarks   []string  // what is missing in the counts
	Programs  []Program // if they were asked for
	Err       error     // why this could not be read, then only Time is valid besides
}

// ThreadID is what a thread is known by.
type ThreadID struct {
	Pid, Tid    uint32 // 0: several that nobody has told apart
	Incarnation uint32 // number of its process in the fork tree
}

// Thread is a thread with what it counted.
type Thread struct {
	ThreadID
	Calls uint64
}

// Event is a function that crossed its threshold.
type Event struct {
	Time     time.Time
	Function int // -1: it is not in the book
	Calls    uint64
	Tid      uint32
	Outcome  string // what a translator did
}

// Program is a table, with what is known of it without its names.
type Program struct {
	Table   string // path
	Name    string // path of the executable
	Pid     uint32
	Threads int // that count now
	Calls   uint64
	Running bool
}

// Book is what the functions of a program are. Names are made when they are asked for:
// of 40,000 that takes longer than to read all counts.
type Book struct {
	Program   string // path of the executable
	Pid       uint32
	Started   time.Time
	Functions []layout.Function
	Objects   []layout.Object
	Mangled   bool // names as they are in the file

	names   []string
	objects []string
}

// Name is how function i is shown.
func (b *Book) Name(i int) string {
	if b.names == nil {
		b.names = make([]string, len(b.Functions))
	}
	if b.names[i] == "" {
		f := &b.Functions[i]
		b.names[i] = symname.Display(f.Name, b.Objects[f.Object].Path, f.Address, !b.Mangled)
	}
	return b.names[i]
}

// Object is how object i is shown.
func (b *Book) Object(i int) string {
	if b.objects == nil {
		b.objects = make([]string, len(b.Objects))
	}
	if b.objects[i] == "" {
		b.objects[i] = symname.Clean(filepath.Base(b.Objects[i].Path))
	}
	return b.objects[i]
}

// ObjectOf is the number of the object of function i.
func (b *Book) ObjectOf(i int) int { return int(b.Functions[i].Object) }
