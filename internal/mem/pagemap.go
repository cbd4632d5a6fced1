package mem

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/procfile"
)

const pageSize = 4096

// OwnPages lists the pages of this process that overlap [low, high) and that are
// copies of its own, no longer those of a file: somebody has written to them.
func OwnPages(low, high uint64) ([]uint64, error) { return OwnPagesOf("self", low, high) }

// OwnPagesOf does so for a process (/proc/PID/pagemap,
// Documentation/admin-guide/mm/pagemap.rst of the kernel).
func OwnPagesOf(pid string, low, high uint64) ([]uint64, error) {
	f, err := procfile.Open("/proc/" + pid + "/pagemap")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const (
		entry   = 8 // bytes a page
		present = 1 << 63
		swapped = 1 << 62
		ofFile  = 1 << 61
	)
	first := low / pageSize
	b := make([]byte, ((high+pageSize-1)/pageSize-first)*entry)
	if _, err := f.ReadAt(b, int64(first*entry)); err != nil {
		return nil, err
	}
	var own []uint64
	for i := 0; i < len(b); i += entry {
		if bits := binary.LittleEndian.Uint64(b[i:]); bits&(present|swapped) != 0 && bits&ofFile == 0 {
			own = append(own, (first+uint64(i/entry))*pageSize)
		}
	}
	return own, nil
}
