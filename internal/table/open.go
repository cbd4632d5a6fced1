package table

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// Why a file cannot be read as a table. Errors of this package wrap one of
// these, or the operating system's.
var (
	ErrNotTable  = errors.New("not a dynprof count table")
	ErrVersion   = errors.New("written by a newer dynprof: read it with that version's hotspots")
	ErrBuilding  = errors.New("not complete yet: its program is starting, or was ended while it did")
	ErrTruncated = errors.New("the count table is cut short: copy it again")
	ErrCorrupt   = errors.New("damaged count table")
)

// Table is an open count table. Header, Objects and Functions are as they
// were when it was opened; Snapshot and Events read anew each time.
type Table struct {
	Header
	Geometry
	Objects    []Object
	Functions  []Function
	Generation uint32 // changes when the program loads more objects: open again

	r         io.ReaderAt
	size      int64
	path      string
	close     func() error
	byCounter []uint32 // indices of Functions, by rising counter
}

// Open opens the table in the named file. Close it after use.
func Open(path string) (*Table, error) {
	f, size, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	t, err := NewReader(f, size)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t.path, t.close = path, f.Close
	return t, nil
}

// openRegular refuses what is no file on disk. O_NONBLOCK keeps the open of a
// FIFO from waiting; on a file it fails while another reader asks whether the
// table is in use (see held), which is over at once.
func openRegular(path string, flags int) (f *os.File, size int64, err error) {
	for range 100 {
		f, err = os.OpenFile(path, flags|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if !errors.Is(err, syscall.EAGAIN) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrNotTable)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}

// NewReader reads a table of size bytes. It believes nothing unchecked: any
// bytes give a table or an error, and it takes memory in proportion to what
// the file holds, not to what it claims.
//
// r may grow and its counters may move meanwhile. Where r is an *os.File the
// holes of a sparse file are skipped.
func NewReader(r io.ReaderAt, size int64) (*Table, error) {
	const tries = 5
	for try := 1; ; try++ {
		t := &Table{r: r, size: size, close: func() error { return nil }}
		before, err := t.read()
		after, genErr := t.u32(HdrGeneration)
		if before%2 == 0 && before == after && genErr == nil || try == tries {
			// After the last try an adder has died halfway. What it had
			// counted in is complete all the same: entries precede counts.
			if err != nil {
				return nil, err
			}
			return t, nil
		}
		if errors.Is(err, ErrNotTable) || errors.Is(err, ErrVersion) {
			return nil, err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Path is the name that the table was opened by.
func (t *Table) Path() string { return t.path }

// Close releases the file.
func (t *Table) Close() error { return t.close() }

// read fills in t and returns the generation that the header had.
func (t *Table) read() (generation uint32, err error) {
	if err := t.readHead(); err != nil {
		return t.Generation, err
	}
	return t.Generation, t.readLedger()
}

// readHead fills in all but the ledger.
func (t *Table) readHead() error {
	h, raw, err := readHeader(t.r, t.size)
	if err != nil {
		return err
	}
	t.Header = *h
	t.Generation = le.Uint32(raw[HdrGeneration:])
	if t.Header.State != StateLive {
		return ErrBuilding
	}
	t.Geometry, err = decodeGeometry(raw, t.size)
	return err
}

func (t *Table) u32(at int64) (uint32, error) {
	var b [4]byte
	_, err := readAt(t.r, b[:], at)
	return le.Uint32(b[:]), err
}

// readAt reads all of b. The end of the file is ErrTruncated.
func readAt(r io.ReaderAt, b []byte, at int64) (int, error) {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return n, nil
	}
	if err == io.EOF {
		err = ErrTruncated
	}
	return n, err
}
