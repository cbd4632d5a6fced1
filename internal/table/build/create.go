// Package build makes count tables, which is the planner's part: a new one at the
// start, with all that is known of the program, and more entries in one that a
// program counts into already.
//
// The planner calls Create and Publish once. From then on only the program's
// own threads store into the file, through their mapping of it, and whoever
// adds objects that it loads later (Appender).
package build

import (
	"errors"
	"math/rand/v2" // crypto/rand brings 32 MB of .bss into the target
	"os"
	"syscall"

	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// File is a table that is being written.
type File struct {
	layout.Geometry
	Nonce [16]byte

	f    *os.File
	path string
}

// Create makes the file and writes all of spec into it; Publish makes it
// valid. Where path exists, the next free name with a number is taken, so
// that no table is ever written over: see Path. The room for what is written
// and for the first RowsReserved rows is on disk when Create returns. After
// an error the file is gone.
//
// The caller ignores SIGXFSZ, which writing past RLIMIT_FSIZE would raise.
func Create(path string, spec *Spec) (*File, error) {
	f, path, err := tabledir.Create(path)
	if err != nil {
		return nil, err
	}
	t := &File{f: f, path: path}
	if err := t.write(spec); err != nil {
		t.Abort()
		return nil, tabledir.RoomHint(path, err)
	}
	return t, nil
}

// Path is the file's name, which may have a number that Create was not given.
func (t *File) Path() string { return t.path }

// Publish makes the table valid for readers. From here on every counter may
// move.
func (t *File) Publish() error {
	if _, err := t.f.WriteAt(le.AppendUint32(nil, layout.StateLive), layout.HdrState); err != nil {
		return tabledir.RoomHint(t.path, err)
	}
	return nil
}

// Fd is its descriptor, which others may be given.
func (t *File) Fd() uintptr { return t.f.Fd() }

// Close closes the file and leaves it on disk.
func (t *File) Close() error { return t.f.Close() }

// Abort closes the file and removes it.
func (t *File) Abort() {
	os.Remove(t.path) // best effort: the error that led here is the one to tell
	t.f.Close()
}

func (t *File) write(spec *Spec) error {
	g, err := t.resize(spec)
	if err != nil {
		return err
	}
	t.Geometry = *g
	le.PutUint64(t.Nonce[:], rand.Uint64())
	le.PutUint64(t.Nonce[8:], rand.Uint64())
	if err := t.reserve(spec); err != nil {
		return err
	}
	header, err := writeSections(t.f, spec, g)
	if err != nil {
		return err
	}
	copy(header[layout.HdrNonce:], t.Nonce[:])
	_, err = t.f.WriteAt(header, 0)
	return err
}

// resize gives the file its apparent size: the largest that RLIMIT_FSIZE and
// the file system allow, first with fewer rows, but MinRows, then without spare
// capacity, then with RowsReserved rows at least.
func (t *File) resize(spec *Spec) (*layout.Geometry, error) {
	rows, spare := spec.MaxRows, !spec.NoSpare
	if rows <= 0 {
		rows = MaxRows
	}
	for {
		g, err := plan(spec, rows, spare)
		if err != nil {
			return nil, err
		}
		err = t.f.Truncate(int64(g.Size))
		if !errors.Is(err, syscall.EFBIG) {
			return g, err
		}
		switch rows = int(g.Rows.Capacity) / 2; {
		case spare && rows < MinRows:
			rows, spare = MinRows, false
		case rows >= RowsReserved:
		default:
			return nil, err
		}
	}
}

// reserve takes the disk blocks that the program will store into without
// being able to handle an error: a store to a hole of a full file system
// raises SIGBUS.
func (t *File) reserve(spec *Spec) error {
	for row := range uint64(RowsReserved) {
		if err := t.allocateRow(row); err != nil {
			return err
		}
	}
	if err := t.allocate(t.Missed.Offset, layout.MsEntrySize*uint64(t.Missed.Capacity)); err != nil {
		return err
	}
	if err := t.allocate(t.Formers.Offset, layout.FmEntrySize*uint64(t.Formers.Capacity)); err != nil {
		return err
	}
	if spec.Flags&layout.FlagThreshold == 0 {
		return t.allocate(t.Events.Offset, layout.EvEntrySize*uint64(t.Events.Capacity))
	}
	return errors.Join(
		t.allocate(t.Events.Offset, layout.EvEntrySize*uint64(t.Events.Capacity)),
		t.allocate(t.Fired.Offset, 4*uint64(t.Counters)))
}

// Reserve takes the disk blocks of more rows: who takes these soon, and may not be kept waiting,
// does not have to see to it.
func (t *File) Reserve(rows int) error {
	n := min(uint32(rows), t.Rows.Capacity)
	if n <= RowsReserved {
		return nil
	}
	for row := uint64(RowsReserved); row < uint64(n); row++ {
		if err := t.allocateRow(row); err != nil {
			return err
		}
	}
	_, err := t.f.WriteAt(le.AppendUint32(nil, n), layout.HdrRowsReserved)
	return err
}

func (t *File) allocateRow(row uint64) error {
	return t.allocate(t.Rows.Offset+row*uint64(t.Rows.EntrySize), layout.RowCounters+8*uint64(t.Counters))
}

func (t *File) allocate(at, size uint64) error {
	if size == 0 {
		return nil
	}
	err := syscall.EINTR
	for err == syscall.EINTR {
		err, _ = syscall.Fallocate(int(t.f.Fd()), 0, int64(at), int64(size)).(syscall.Errno)
	}
	switch err {
	case 0:
		return nil
	case syscall.EOPNOTSUPP, syscall.ENOSYS:
		return t.writeZeros(int64(at), int64(size))
	}
	return os.NewSyscallError("fallocate", err)
}

func (t *File) writeZeros(at, size int64) error {
	zeros := make([]byte, min(size, layout.Chunk))
	for size > 0 {
		n, err := t.f.WriteAt(zeros[:min(size, layout.Chunk)], at)
		if err != nil {
			return err
		}
		at, size = at+int64(n), size-int64(n)
	}
	return nil
}
