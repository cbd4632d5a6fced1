package file

import (
	"errors"
	"syscall"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// lseek(2): the next data, the next hole.
const (
	seekData = 3
	seekHole = 4
)

// EachData calls use with the first count entries of s as far as they are not
// in holes of the file: whole entries, some at a time, with the index of the
// first. What is skipped is zero.
func (f *File) EachData(s layout.Section, count uint64, use func(first uint64, b []byte) error) error {
	return f.EachDataIn(nil, s, count, use)
}

// EachDataIn is EachData that reads into buf, if that has room for an entry.
func (f *File) EachDataIn(buf []byte, s layout.Section, count uint64, use func(first uint64, b []byte) error) error {
	if count == 0 {
		return nil // tables of older versions lack the section
	}
	size := uint64(s.EntrySize)
	buf = buf[:uint64(len(buf))/size*size]
	for i := uint64(0); i < count; {
		from, to := f.nextData(s.Offset+i*size, s.Offset+count*size)
		i = max(i, (from-s.Offset)/size)
		end := min(count, (to-s.Offset+size-1)/size)
		if len(buf) == 0 && i < end {
			buf = make([]byte, min((end-i)*size, max(1, layout.Chunk/size)*size))
		}
		for i < end {
			b := buf[:min(uint64(len(buf)), (end-i)*size)]
			if err := f.ReadAt(b, int64(s.Offset+i*size)); err != nil {
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
func (f *File) nextData(at, end uint64) (from, to uint64) {
	if f.os == nil {
		return at, end
	}
	data, err := f.os.Seek(int64(at), seekData)
	if errors.Is(err, syscall.ENXIO) {
		return end, end
	}
	if err != nil || uint64(data) < at {
		return at, end
	}
	if uint64(data) >= end {
		return end, end
	}
	hole, err := f.os.Seek(data, seekHole)
	if err != nil || hole <= data {
		return uint64(data), end
	}
	return uint64(data), min(uint64(hole), end)
}

// EachRow calls use with the header of each of the rows handed out that is
// not in a hole, and reads no counters.
func (f *File) EachRow(use func(layout.Row)) error {
	used, err := f.U32(layout.HdrRowsUsed)
	if err != nil {
		return err
	}
	rows := f.Geometry.Rows
	stride := uint64(rows.EntrySize)
	end := rows.Offset + uint64(min(used, rows.Capacity))*stride
	var b [layout.RowCounters]byte
	for at := rows.Offset; at < end; at += stride {
		if from, _ := f.nextData(at, end); from >= at+layout.PageSize {
			at = rows.Offset + (from-rows.Offset)/stride*stride // the row with data in it
			if at >= end {
				return nil
			}
		}
		if err := f.ReadAt(b[:], int64(at)); err != nil {
			return err
		}
		use(layout.DecodeRow(uint32((at-rows.Offset)/stride), b[:]))
	}
	return nil
}

// Folded lists the processes that were folded into the table.
func (f *File) Folded() (all []layout.Folded, err error) {
	err = f.EachEntry(f.Geometry.Folded, func(b []byte) error {
		d := layout.DecodeFolded(b)
		if d.Nonce == [16]byte{} { // a hole, however large
			return layout.Corrupt("folded process %d has no nonce", len(all))
		}
		all = append(all, d)
		return nil
	})
	return all, err
}

// EachChunk calls use with the entries in use of s, whole ones, some at a time.
func (f *File) EachChunk(s layout.Section, use func([]byte) error) error {
	if s.Count == 0 {
		return nil // most tables lack some of the sections
	}
	size := uint64(s.EntrySize)
	left := uint64(s.Count) * size
	buf := make([]byte, min(left, max(1, layout.Chunk/size)*size))
	for at := s.Offset; left > 0; {
		b := buf[:min(left, uint64(len(buf)))]
		if err := f.ReadAt(b, int64(at)); err != nil {
			return err
		}
		if err := use(b); err != nil {
			return err
		}
		at, left = at+uint64(len(b)), left-uint64(len(b))
	}
	return nil
}

// EachEntry calls use with each entry in use of s.
func (f *File) EachEntry(s layout.Section, use func([]byte) error) error {
	size := int(s.EntrySize)
	return f.EachChunk(s, func(b []byte) error {
		for ; len(b) > 0; b = b[size:] {
			if err := use(b[:size]); err != nil {
				return err
			}
		}
		return nil
	})
}
