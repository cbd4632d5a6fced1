package layout

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
)

var le = binary.LittleEndian

// MaxString is the most bytes of a string; a longer name is cut.
const MaxString = 65535

// ReadAt reads all of b. The end of the file is ErrTruncated.
func ReadAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		err = ErrTruncated
	}
	return err
}

// ReadString reads one string of section s; 0 is the empty one.
func ReadString(r io.ReaderAt, s Section, off uint32) (string, error) {
	if off == 0 {
		return "", nil
	}
	if off >= s.Count {
		return "", Corrupt("string at %d of %d", off, s.Count)
	}
	b := make([]byte, 0, 512)
	for {
		n := min(cap(b), MaxString+1, int(s.Count-off))
		if n == len(b) {
			return "", Corrupt("string at %d has no end", off)
		}
		start := len(b)
		b = b[:n]
		if err := ReadAt(r, b[start:], int64(s.Offset)+int64(off)+int64(start)); err != nil {
			return "", err
		}
		if end := bytes.IndexByte(b[start:], 0); end >= 0 {
			return string(b[:start+end]), nil
		}
		b = slices.Grow(b, 2*len(b))
	}
}

// AllZero reports whether b is a hole, or might be one.
func AllZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
