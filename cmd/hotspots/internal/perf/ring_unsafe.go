package perf

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/sampling"
)

// ring is the memory that the kernel writes the records of one CPU to (perf_event_open(2),
// "MMAP layout"). It writes behind head; what is in front of tail has been read:
//
//  1. The kernel writes a record and then stores head, which is read with acquire order.
//  2. What is between tail and head is read.
//  3. tail is stored with release order: the kernel may write there from now on.
//
// Where there is no room for a record it is lost, and the next one says how many were.
type ring struct {
	fd     int
	whole  []byte // as mapped
	data   []byte
	head   *atomic.Uint64
	tail   *atomic.Uint64
	record []byte // one that goes round the end
}

const pageSize = 4096

// newRing maps a ring of so many pages, or fewer, if a user's rings may not take as many:
// the next ones are no larger.
func newRing(fd int, pages *int) (*ring, error) {
	for ; ; *pages /= 2 {
		b, err := unix.Mmap(fd, 0, (1+*pages)*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&b[0]))
			return &ring{
				fd: fd, whole: b, data: b[pageSize:],
				head: (*atomic.Uint64)(unsafe.Pointer(&page.Data_head)), tail: (*atomic.Uint64)(unsafe.Pointer(&page.Data_tail)),
			}, nil
		}
		if !errors.Is(err, unix.EPERM) {
			return nil, os.NewSyscallError("mmap of a perf event's ring", err)
		}
		if *pages == 1 {
			return nil, fmt.Errorf("mmap of a perf event's ring: there is no memory left to lock: raise kernel.perf_event_mlock_kb or ulimit -l")
		}
	}
}

func (r *ring) close() {
	unix.Munmap(r.whole)
	unix.Close(r.fd)
}

// read hands on all records that are there. What the kernel writes meanwhile comes next time.
func (r *ring) read(use func(*sampling.Record)) {
	head, tail := r.head.Load(), r.tail.Load()
	var rec sampling.Record
	for head-tail >= sampling.HeaderSize {
		size := uint64(sampling.SizeOf(r.at(tail, sampling.HeaderSize)))
		if size < sampling.HeaderSize || size > head-tail {
			tail = head // "BUG" of the kernel's: the rest is not understood
			break
		}
		if rec.Decode(r.at(tail, size)) {
			use(&rec)
		}
		tail += size
	}
	r.tail.Store(tail)
}

// at is n bytes of the ring from a position on.
func (r *ring) at(pos, n uint64) []byte {
	size := uint64(len(r.data))
	from := pos % size
	if from+n <= size {
		return r.data[from : from+n]
	}
	r.record = append(append(r.record[:0], r.data[from:]...), r.data[:from+n-size]...)
	return r.record
}
