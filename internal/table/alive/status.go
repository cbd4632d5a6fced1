// Package alive says whether the program of a count table still runs, and which
// process that is: numbers of processes are used again.
package alive

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Status says whether a table's program still runs.
type Status int

// Statuses. A program whose table came from another machine, another boot or
// another pid namespace is unknown unless its runner noted the end.
const (
	Unknown Status = iota
	Running
	Exited
	Copied // the file is a copy that hotspots snapshot made
)

func (s Status) String() string {
	switch s {
	case Running:
		return "running"
	case Exited:
		return "exited"
	case Copied:
		return "snapshot"
	}
	return "unknown"
}

// Word is a status, or that the program was detached from, and not seen to end since.
func Word(s Status, e layout.Ended) string {
	if s == Exited && e.Kind == layout.EndedDetached {
		return "detached"
	}
	return s.String()
}

// Of asks the kernel whether the table's program, or a process that it forked,
// is alive.
func Of(t *file.File) Status {
	if !t.Header.Snapshot.IsZero() {
		return Copied
	}
	here := SameKernel(&t.Identity)
	held, known := t.Held()
	if t.Ended.Kind == layout.EndedDetached && here && SamePidNS(&t.Identity) && !CountsInto(t) {
		return Exited // others may have the table open yet, to read it
	}
	if here && SamePidNS(&t.Identity) && Start(t.Pid) == t.StartTicks && t.StartTicks != 0 &&
		(held || !known || t.State != layout.StateLive) { // not held: it has executed another program
		return Running
	}
	switch {
	case known && !held:
		return Exited // each process of the program keeps the file mapped
	case here && known && runsBelow(&t.Identity):
		return Running
	case here && SamePidNS(&t.Identity) && t.Flags&layout.FlagShared == 0: // a shared row tells of no child
		if anyRowAlive(t) {
			return Running
		}
		return Exited
	case t.Ended.Kind != layout.EndedUnknown:
		return Exited
	}
	return Unknown
}

// anyRowAlive reports whether some row's process lives and is younger than
// the program, as its children are.
func anyRowAlive(t *file.File) bool {
	alive := false
	seen := map[uint32]bool{}
	err := t.EachRow(func(r layout.Row) {
		if !r.Held() || seen[r.Pid] {
			return
		}
		seen[r.Pid] = true
		start := Start(r.Pid)
		alive = alive || r.Pid == 0 || start != 0 && start >= t.StartTicks // 0: it is being born
	})
	return alive || err != nil
}

// Counting reports whether a process counts into the table at path, or whether
// that cannot be told. Who only reads it, or is its agent, does not.
func Counting(path string) (bool, error) {
	t, err := file.OpenHead(path, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer t.Close()
	if held, known := t.Held(); known && !held {
		return false, nil
	}
	return t.Flags&layout.FlagShared != 0 || CountsInto(t), nil // a shared row tells of no child
}

// CountsInto reports whether some process counts into the table. Others who read
// it may have it open, so that the kernel does not say it at once: then the
// processes in its rows are looked at.
func CountsInto(t *file.File) bool {
	if held, known := t.Held(); known && !held {
		return false
	}
	if !SameKernel(&t.Identity) || !SamePidNS(&t.Identity) {
		return Of(t) != Exited
	}
	if mappedBy(t, t.Pid) {
		return true
	}
	counting := false
	seen := map[uint32]bool{}
	err := t.EachRow(func(r layout.Row) {
		if !counting && r.Held() && !seen[r.Pid] {
			seen[r.Pid] = true
			counting = r.Pid == 0 || mappedBy(t, r.Pid) // 0: it is being born
		}
	})
	return counting || err != nil
}

// mappedBy reports whether process pid lives, is the program's, and has the
// file mapped or does not let us see that. After an exec it has not.
func mappedBy(t *file.File, pid uint32) bool {
	if start := Start(pid); start == 0 || start < t.StartTicks {
		return false
	}
	if t.OS() == nil {
		return true
	}
	fi, err := t.OS().Stat()
	if err != nil {
		return true
	}
	maps, err := procmaps.Of(strconv.Itoa(int(pid)))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	inode := fi.Sys().(*syscall.Stat_t).Ino
	for i := range maps {
		if m := &maps[i]; m.Shared && m.Path != "" && m.Inode == inode {
			return true
		}
	}
	return false
}
