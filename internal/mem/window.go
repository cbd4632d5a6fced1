package mem

import (
	"io"

	"golang.org/x/sys/unix"
)

// Window is memory of this process as a file is read and written. What is written
// goes by way of the kernel: where a shared mapping of a file finds no room on
// disk, that is an error and no SIGBUS.
type Window struct {
	Addr uint64
	Size uint64 // bytes
}

// ReadAt implements io.ReaderAt.
func (w Window) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || uint64(off) >= w.Size {
		return 0, io.EOF
	}
	n := copy(b, View(w.Addr+uint64(off), int(w.Size-uint64(off))))
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (w Window) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || uint64(off) > w.Size || uint64(len(b)) > w.Size-uint64(off) {
		return 0, io.ErrShortWrite
	}
	done := 0
	for done < len(b) {
		local := []unix.Iovec{{Base: &b[done], Len: uint64(len(b) - done)}}
		remote := []unix.RemoteIovec{{Base: uintptr(w.Addr + uint64(off) + uint64(done)), Len: len(b) - done}}
		n, err := unix.ProcessVMWritev(unix.Getpid(), local, remote, 0)
		switch {
		case err == unix.ENOSYS || err == unix.EPERM:
			return w.store(b, off)
		case err == unix.EFAULT || err == nil && n == 0:
			return done, unix.ENOSPC
		case err != nil:
			return done, err
		}
		done += n
	}
	return done, nil
}

// store is WriteAt where the kernel does not write for us: it makes room first.
func (w Window) store(b []byte, off int64) (int, error) {
	at := w.Addr + uint64(off)
	page := at &^ (pageSize - 1)
	whole := View(page, int((at+uint64(len(b))+pageSize-1)&^(pageSize-1)-page))
	if err := unix.Madvise(whole, unix.MADV_POPULATE_WRITE); err != nil {
		return 0, err
	}
	return copy(View(at, len(b)), b), nil
}
