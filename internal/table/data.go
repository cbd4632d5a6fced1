package table

import (
	"errors"
	"os"
	"syscall"
)

// lseek(2): the next data, the next hole.
const (
	seekData = 3
	seekHole = 4
)

// eachData calls use with the first count entries of s as far as they are not
// in holes of the file: whole entries, some at a time, with the index of the
// first. What is skipped is zero.
func (t *Table) eachData(s Section, count uint64, use func(first uint64, b []byte) error) error {
	return t.eachDataIn(nil, s, count, use)
}

// eachDataIn is eachData that reads into buf, if that has room for an entry.
func (t *Table) eachDataIn(buf []byte, s Section, count uint64, use func(first uint64, b []byte) error) error {
	if count == 0 {
		return nil // tables of older versions lack the section
	}
	size := uint64(s.EntrySize)
	buf = buf[:uint64(len(buf))/size*size]
	for i := uint64(0); i < count; {
		from, to := t.nextData(s.Offset+i*size, s.Offset+count*size)
		i = max(i, (from-s.Offset)/size)
		end := min(count, (to-s.Offset+size-1)/size)
		if len(buf) == 0 && i < end {
			buf = make([]byte, min((end-i)*size, max(1, chunk/size)*size))
		}
		for i < end {
			b := buf[:min(uint64(len(buf)), (end-i)*size)]
			if _, err := readAt(t.r, b, int64(s.Offset+i*size)); err != nil {
				return err
			}
			if err := use(i, b); err != nil {
				return err
			}
			i += uint64(len(b)) / size
		}
		if to >= s.Offset+count*size {
			return nil
		}
	}
	return nil
}

// nextData returns the first stretch of [at, end) that is not a hole, or an
// empty one at the end. A file system that cannot tell has no holes.
func (t *Table) nextData(at, end uint64) (from, to uint64) {
	f, ok := t.r.(*os.File)
	if !ok {
		return at, end
	}
	data, err := f.Seek(int64(at), seekData)
	if errors.Is(err, syscall.ENXIO) {
		return end, end
	}
	if err != nil || uint64(data) < at {
		return at, end
	}
	if uint64(data) >= end {
		return end, end
	}
	hole, err := f.Seek(data, seekHole)
	if err != nil || hole <= data {
		return uint64(data), end
	}
	return uint64(data), min(uint64(hole), end)
}

// eachRow calls use with the header of each of the rows handed out that is
// not in a hole, and reads no counters.
func (t *Table) eachRow(use func(Row)) error {
	used, err := t.u32(HdrRowsUsed)
	if err != nil {
		return err
	}
	rows := t.Geometry.Rows
	stride := uint64(rows.EntrySize)
	end := rows.Offset + uint64(min(used, rows.Capacity))*stride
	var b [RowCounters]byte
	for at := rows.Offset; at < end; at += stride {
		if from, _ := t.nextData(at, end); from >= at+PageSize {
			at = rows.Offset + (from-rows.Offset)/stride*stride // the row with data in it
			if at >= end {
				return nil
			}
		}
		if _, err := readAt(t.r, b[:], int64(at)); err != nil {
			return err
		}
		use(decodeRow(uint32((at-rows.Offset)/stride), b[:]))
	}
	return nil
}
