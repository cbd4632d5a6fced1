// Package file opens the file of a count table: its header is checked, its
// sections are read in pieces, but for holes, and its live words are mapped. What
// the sections say is the reader's business (package table).
package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/table/layout"
)

var le = binary.LittleEndian

// File is the file of a count table. Header, Geometry and Generation are as they
// were when ReadHead was called.
type File struct {
	layout.Header
	layout.Geometry
	Generation uint32 // changes when the program loads more objects

	r    io.ReaderAt
	size int64
	path string
	os   *os.File // nil if r is not one
}

// New makes a File of size bytes. r may grow and its counters may move meanwhile.
// Where r is an *os.File the holes of a sparse file are skipped.
func New(r io.ReaderAt, size int64) *File {
	f := &File{r: r, size: size}
	f.os, _ = r.(*os.File)
	return f
}

// Open opens the named file, and reads nothing of it. Close it after use.
//
// It refuses what is no file on disk. O_NONBLOCK keeps the open of a FIFO from
// waiting; on a file it fails while another reader asks whether the table is in
// use (see Held), which is over at once, or folds it into another, which takes some
// milliseconds, mostly.
func Open(path string, flags int) (*File, error) {
	var f *os.File
	err := error(syscall.EAGAIN)
	const patience = 1000 // ms
	for try := 0; try < patience && errors.Is(err, syscall.EAGAIN); try++ {
		if try > 0 {
			time.Sleep(time.Millisecond)
		}
		f, err = os.OpenFile(path, flags|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, layout.ErrNotTable)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{r: f, size: fi.Size(), path: path, os: f}, nil
}

// OpenHead opens the named file and reads its header.
func OpenHead(path string, flags int) (*File, error) {
	f, err := Open(path, flags)
	if err != nil {
		return nil, err
	}
	if err := f.ReadHead(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Path is the name that the file was opened by; empty if New made it.
func (f *File) Path() string { return f.path }

// OS is the open file; nil if the table is read from something else.
func (f *File) OS() *os.File { return f.os }

// Close releases the file.
func (f *File) Close() error {
	if f.path == "" {
		return nil // who called New closes it
	}
	return f.os.Close()
}

// ReadHead reads and checks all but the ledger.
func (f *File) ReadHead() error {
	h, raw, err := layout.ReadHeader(f.r, f.size)
	if err != nil {
		return err
	}
	f.Header = *h
	f.Generation = le.Uint32(raw[layout.HdrGeneration:])
	if f.State != layout.StateLive {
		return layout.ErrBuilding
	}
	f.Geometry, err = layout.DecodeGeometry(raw, f.size)
	return err
}

// ReadAt reads all of b. The end of the file is layout.ErrTruncated.
func (f *File) ReadAt(b []byte, at int64) error { return layout.ReadAt(f.r, b, at) }

// U32 reads the word at that offset.
func (f *File) U32(at int64) (uint32, error) {
	var b [4]byte
	err := f.ReadAt(b[:], at)
	return le.Uint32(b[:]), err
}

// U64 reads the long word at that offset.
func (f *File) U64(at int64) (uint64, error) {
	var b [8]byte
	err := f.ReadAt(b[:], at)
	return le.Uint64(b[:]), err
}

// String reads one string of the strings section; 0 is the empty one.
func (f *File) String(off uint32) (string, error) {
	return layout.ReadString(f.r, f.Geometry.Strings, off)
}

// CheckWhole refuses a file that has been cut short since it was opened: what is behind its
// end would be taken for holes, and counts would go back. head is the beginning of its
// header, which has just been read, nonce what it was at first.
func (f *File) CheckWhole(head []byte, nonce [16]byte) error {
	if [16]byte(head[layout.HdrNonce:]) != nonce {
		return layout.Corrupt("it is not the table that was opened")
	}
	if f.os == nil {
		return nil
	}
	fi, err := f.os.Stat()
	if err != nil {
		return err
	}
	return layout.CheckSize(head, fi.Size())
}
