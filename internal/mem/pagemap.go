package mem

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/procfile"
)

const pageSize = 4096

// OwnPages lists the pages of this process that overlap [low, high) and that are
// copies of its own, no longer those of a file: somebody has written to them.
func OwnPages(low, high uint64) ([]uint64, error) { return OwnPagesOf("self", low, high) }

// OwnPagesOf does so for a process.
func OwnPagesOf(pid string, low, high uint64) (own []uint64, err error) {
	const ofFile = 1 << 61
	err = eachPage(pid, low, high, func(at, bits uint64) {
		if bits&isThere != 0 && bits&ofFile == 0 {
			own = append(own, at)
		}
	})
	if err != nil {
		return nil, err
	}
	return own, nil
}

// ResidentOf counts the pages of a process that overlap [low, high) and are in memory, or in swap; up to
// where they could be read, if there is an error.
func ResidentOf(pid string, low, high uint64) (n uint64, err error) {
	err = eachPage(pid, low, high, func(_, bits uint64) {
		if bits&isThere != 0 {
			n++
		}
	})
	return n, err
}

// isThere are the bits of pages that are present, or swapped.
const isThere = 1<<63 | 1<<62

// eachPage calls use for each page of a process that overlaps [low, high), with its address and its
// bits (/proc/PID/pagemap, Documentation/admin-guide/mm/pagemap.rst of the kernel).
func eachPage(pid string, low, high uint64, use func(at, bits uint64)) error {
	f, err := procfile.Open("/proc/" + pid + "/pagemap")
	if err != nil {
		return err
	}
	defer f.Close()
	const (
		entry = 8 // bytes a page
		most  = 1 << 16
	)
	first, end := low/pageSize, (high+pageSize-1)/pageSize
	b := make([]byte, min(end-first, most)*entry)
	for ; first < end; first += uint64(len(b) / entry) {
		b = b[:min(end-first, most)*entry]
		if _, err := f.ReadAt(b, int64(first*entry)); err != nil {
			return err
		}
		for i := 0; i < len(b); i += entry {
			use((first+uint64(i/entry))*pageSize, binary.LittleEndian.Uint64(b[i:]))
		}
	}
	return nil
}
