package table

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// live is a table's header, mapped: its words change by atomic operations
// while the program runs.
type live struct{ header []byte }

// mapLive maps the header of the table in f, which has at least that.
func mapLive(f *os.File) (*live, error) {
	b, err := syscall.Mmap(int(f.Fd()), 0, HeaderSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &live{b}, nil
}

func (l *live) close() { syscall.Munmap(l.header) }

func (l *live) word(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&l.header[at])) }
func (l *live) long(at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&l.header[at])) }

// guard calls use, in which the header may be gone: a file that is cut short
// meanwhile raises SIGBUS.
func guard(use func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if fault, ok := p.(interface{ Addr() uintptr }); ok {
			err = fmt.Errorf("%w (at %#x)", ErrTruncated, fault.Addr())
		} else if p != nil {
			panic(p)
		}
	}()
	return use()
}
