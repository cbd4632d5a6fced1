// Package files opens the files that a process has mapped.
package files

import (
	"os"
	"syscall"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/patcher/target"
)

// Open opens a regular file, or what else can be read at any place. Beat, if there is one, is
// told that work goes on.
func Open(path string, beat func()) (target.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have that name by now
	if err != nil {
		return nil, err
	}
	return Of(f, beat)
}

// Of is a file that is open, which is closed after an error.
func Of(f *os.File, beat func()) (target.File, error) {
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	b, err := mem.MapFile(f, fi.Size())
	if err != nil {
		return plain{f, fi.Size(), beat}, nil
	}
	return mapped{plain{f, fi.Size(), beat}, b}, nil
}

// plain is a file that is read.
type plain struct {
	*os.File
	size int64
	beat func()
}

func (f plain) Size() int64 { return f.size }

// ReadAt is a beat, too: a large file is read for long.
func (f plain) ReadAt(b []byte, off int64) (int, error) {
	if f.beat != nil {
		f.beat()
	}
	return f.File.ReadAt(b, off)
}

// Identity implements target.Identified.
func (f plain) Identity() (target.Identity, error) {
	fi, err := f.Stat()
	if err != nil {
		return target.Identity{}, err
	}
	s := fi.Sys().(*syscall.Stat_t)
	return target.Identity{Inode: s.Ino, Size: uint64(s.Size), Mtime: uint64(s.Mtim.Nano()), Ctime: uint64(s.Ctim.Nano())}, nil
}

// mapped is a file that is mapped as well: its strings take no memory. The mapping
// lasts as long as the process.
type mapped struct {
	plain
	bytes []byte
}

func (f mapped) String(off, size uint64) string { return mem.String(f.bytes[off : off+size]) }
