package file

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Words is a table's header, mapped: its words change by atomic operations
// while the program runs.
type Words struct{ header []byte }

// MapWords maps the header of the table, whose file is open for writing and has
// at least that. Close it after use.
func (f *File) MapWords() (*Words, error) {
	b, err := syscall.Mmap(int(f.os.Fd()), 0, layout.HeaderSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &Words{b}, nil
}

// Close unmaps the header.
func (w *Words) Close() { syscall.Munmap(w.header) }

// Word is the word at that offset.
func (w *Words) Word(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&w.header[at])) }

// Long is the long word at that offset.
func (w *Words) Long(at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&w.header[at])) }

// Guard calls use, in which the header may be gone: a file that is cut short
// meanwhile raises SIGBUS.
func Guard(use func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if fault, ok := p.(interface{ Addr() uintptr }); ok {
			err = fmt.Errorf("%w (at %#x)", layout.ErrTruncated, fault.Addr())
		} else if p != nil {
			panic(p)
		}
	}()
	return use()
}

// Wait waits while the word is value: until it is woken, or that long.
func (w *Words) Wait(at int, value uint32, patience time.Duration) {
	const futexWait = 0
	ts := syscall.NsecToTimespec(int64(patience))
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&w.header[at])), futexWait, uintptr(value), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// Wake wakes all who wait for the word.
func (w *Words) Wake(at int) {
	const futexWake, all = 1, 1<<31 - 1
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&w.header[at])), futexWake, all, 0, 0, 0)
}
