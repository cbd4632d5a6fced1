package heat

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/table/beside"
)

// Follower reads the file beside a table while it grows.
type Follower struct {
	path  string
	nonce string
	file  *os.File
	info  os.FileInfo
	read  int64  // bytes
	rest  []byte // of a record that is not whole
	now   *File
	times int
}

// Follow follows the pages of a table, whose nonce is given.
func Follow(table string, nonce [16]byte) *Follower {
	return &Follower{path: PathOf(table), nonce: beside.Nonce(nonce)}
}

// State is what a follower knows.
type State struct {
	File    *File
	Times   int       // the file was written anew: slices of an earlier number are others
	Written time.Time // when it was written to last
}

// Next reads what is new, if anything is. What it returned before stays as it is. Without any
// pages the error is ErrNone.
func (f *Follower) Next() (s State, isNew bool, err error) {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return State{}, false, ErrNone
	case err != nil:
		return State{}, false, err
	case f.file == nil || !os.SameFile(info, f.info) || info.Size() < f.read:
		isNew, err = true, f.open()
	case info.Size() > f.read:
		count := f.now.Count
		err = f.more()
		isNew = err == nil && (f.now.Count != count || f.now.Ended)
	}
	if err != nil {
		f.Close()
		return State{}, false, err
	}
	now := *f.now
	return State{&now, f.times, info.ModTime()}, isNew, nil
}

// open begins with a file that is another.
func (f *Follower) open() (err error) {
	f.Close()
	if f.file, err = os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return err
	}
	if f.info, err = f.file.Stat(); err != nil {
		return err
	}
	if !f.info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", f.path)
	}
	b, err := io.ReadAll(f.file)
	if err != nil {
		return err
	}
	f.times++
	f.read = int64(len(b))
	f.now, f.rest, err = parse(b)
	if err == nil && f.now.table != f.nonce {
		err = ErrNone
	}
	return err
}

// more reads what is behind that.
func (f *Follower) more() error {
	b, err := io.ReadAll(f.file)
	if err != nil {
		return err
	}
	f.read += int64(len(b))
	f.rest, err = f.now.add(append(f.rest, b...))
	return err
}

// Close ends it.
func (f *Follower) Close() {
	if f.file != nil {
		f.file.Close()
	}
	f.file, f.now, f.rest, f.read = nil, nil, nil, 0
}
