package elfscan

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

var le = binary.LittleEndian

// chunkSize is how much is read at a time of what is not kept; it holds a
// whole number of symbols, relocations and words. Memory is what a scan in a
// new process waits for: the first touch of a page was measured at 2 µs.
const chunkSize = 2048 * symSize

// decode fills a header structure from the front of b.
func decode[T elf.Header64 | elf.Prog64 | elf.Section64](b []byte, v *T) {
	if _, err := binary.Decode(b, le, v); err != nil {
		panic(err) // b is shorter than its reader promised; Scan recovers
	}
}

// problem notes that a part of the file could not be read.
func (f *file) problem(err error) { f.problems = append(f.problems, err) }

// admit reports whether the file has size bytes at off, and has not been read
// several times over: a damaged file may name the same bytes again and again.
func (f *file) admit(off, size uint64, what string) error {
	if off > f.size || size > f.size-off {
		return fmt.Errorf("%w: %s: %d bytes at offset %d of %d", ErrTruncated, what, size, off, f.size)
	}
	if size > f.budget {
		return fmt.Errorf("%w: %s: its parts overlap", ErrTruncated, what)
	}
	f.budget -= size
	return nil
}

// read returns size bytes at off.
func (f *file) read(off, size uint64, what string) ([]byte, error) {
	if err := f.admit(off, size, what); err != nil || size == 0 {
		return nil, err
	}
	b := make([]byte, size)
	return b, f.fill(b, off, what)
}

// fill reads all of b from off.
func (f *file) fill(b []byte, off uint64, what string) error {
	n, err := f.r.ReadAt(b, int64(off))
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = ErrTruncated // the file has shrunk
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Mapped is what a reader may have besides: bytes of the file as a string that
// takes no memory of its own.
type Mapped interface {
	String(off, size uint64) string
}

// readString is read for a string table: one allocation, or none, of which the
// names are substrings.
func (f *file) readString(off, size uint64, what string) (string, error) {
	if m, ok := f.r.(Mapped); ok {
		if err := f.admit(off, size, what); err != nil {
			return "", err
		}
		return m.String(off, size), nil
	}
	var s strings.Builder
	if size <= f.size {
		s.Grow(int(size))
	}
	err := f.chunks(off, size, what, func(b []byte) { s.Write(b) })
	return s.String(), err
}

// chunks calls use for one piece after the other of the size bytes at off.
func (f *file) chunks(off, size uint64, what string, use func([]byte)) error {
	if err := f.admit(off, size, what); err != nil {
		return err
	}
	if f.chunk == nil {
		f.chunk = make([]byte, chunkSize)
	}
	for size > 0 {
		b := f.chunk[:min(size, chunkSize)]
		if err := f.fill(b, off, what); err != nil {
			return err
		}
		use(b)
		off += uint64(len(b))
		size -= uint64(len(b))
	}
	return nil
}

// entries calls use for each entry of a table of size bytes at off.
func (f *file) entries(off, size uint64, entry int, what string, use func([]byte)) error {
	return f.chunks(off, size, what, func(b []byte) {
		for ; len(b) >= entry; b = b[entry:] {
			use(b[:entry])
		}
	})
}

// offset translates a virtual address into a file offset; rest is the number
// of bytes that the file holds from there to the end of the segment.
func (f *file) offset(addr uint64) (off, rest uint64, ok bool) {
	for _, s := range f.segments {
		if addr >= s.Addr && addr-s.Addr < s.FileSize && s.Offset < f.size {
			off, rest = s.Offset+(addr-s.Addr), s.FileSize-(addr-s.Addr)
			if off >= s.Offset && off < f.size {
				return off, min(rest, f.size-off), true
			}
		}
	}
	return 0, 0, false
}

// locate returns the offset of the size bytes that are mapped at addr.
func (f *file) locate(addr, size uint64, what string) (uint64, error) {
	off, rest, ok := f.offset(addr)
	if !ok || size > rest {
		return 0, fmt.Errorf("%w: %s: %d bytes at address %#x", ErrTruncated, what, size, addr)
	}
	return off, nil
}

// readAddr returns the size bytes that are mapped at addr.
func (f *file) readAddr(addr, size uint64, what string) ([]byte, error) {
	off, err := f.locate(addr, size, what)
	if err != nil {
		return nil, err
	}
	return f.read(off, size, what)
}

// cstring returns the string that starts at off in a string table, or "" if
// there is none of at most limit bytes.
func cstring(table string, off uint64, limit int) string {
	if off >= uint64(len(table)) {
		return ""
	}
	s := table[off:]
	if len(s) > limit {
		s = s[:limit]
	}
	return s[:max(strings.IndexByte(s, 0), 0)]
}

// maxPeek is how much window.peek shows. Of an .eh_frame record it is more
// than is looked at: what lies further on can only be call frame instructions
// for addresses behind the first.
const maxPeek = 4096

// window reads a part of a file forwards.
type window struct {
	*file
	off, end uint64 // what is left
	buf      []byte
	at       uint64 // offset of buf[0]
}

func (w *window) left() uint64 { return w.end - w.off }

// peek returns the bytes at off: maxPeek or more, unless fewer are left. They
// stand until the next call.
func (w *window) peek(what string) ([]byte, error) {
	if skip := w.off - w.at; skip <= uint64(len(w.buf)) {
		if b := w.buf[skip:]; len(b) >= maxPeek || uint64(len(b)) == w.left() {
			return b, nil
		}
	}
	if w.buf == nil {
		w.buf = make([]byte, 16*maxPeek)
	}
	w.buf, w.at = w.buf[:min(w.left(), uint64(cap(w.buf)))], w.off
	return w.buf, w.fill(w.buf, w.off, what)
}
