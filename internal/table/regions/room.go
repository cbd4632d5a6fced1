package regions

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// room is how much may still be written to a file before its file system is asked again. What
// records take has no bound, and a file system that is full hurts the program, and all others: some
// of it is left to them.
type room struct {
	bytes uint64
}

const (
	share    = 20       // a part of the file system that is left: one of so many,
	mostLeft = 1 << 30  // of so many bytes at most
	mostRoom = 64 << 20 // that are written without asking
)

// left is how many bytes of a file system are left to others.
func left(size uint64) uint64 { return min(size/share, mostLeft) }

// take takes n bytes of it.
func (r *room) take(f *os.File, n uint64) error {
	if n <= r.bytes {
		r.bytes -= n
		return nil
	}
	var is syscall.Statfs_t
	if syscall.Fstatfs(int(f.Fd()), &is) != nil || is.Blocks == 0 {
		return nil // the write will tell
	}
	block := uint64(is.Frsize)
	free, others := is.Bavail*block, left(is.Blocks*block)
	if free < others+n {
		const megabyte = 1e6
		why := fmt.Errorf("no space left but for %.0f MB of %.0f, which are the program's and others'", float64(free)/megabyte, float64(is.Blocks*block)/megabyte)
		return &fs.PathError{Op: "write", Path: f.Name(), Err: why}
	}
	r.bytes = min((free-others-n)/2, mostRoom)
	return nil
}
