package layout

import "io"

// Chunk is how much is written or read at once, bytes.
const Chunk = 256 << 10

// Sink collects a section's bytes and writes them in large pieces.
type Sink struct {
	w   io.WriterAt
	off int64
	buf []byte
	err error // the first; later writes do nothing
}

// NewSink writes from the beginning of s on.
func NewSink(w io.WriterAt, s Section) *Sink {
	n := min(uint64(s.Count)*uint64(s.EntrySize), Chunk)
	return &Sink{w: w, off: int64(s.Offset), buf: make([]byte, 0, n+2*MaxString)}
}

// Entry returns n zero bytes at the section's end, to be filled at once.
func (s *Sink) Entry(n int) []byte {
	if len(s.buf) >= Chunk {
		s.Flush()
	}
	old := len(s.buf)
	s.buf = append(s.buf, make([]byte, n)...)
	return s.buf[old:]
}

// Last returns the last n bytes of the entry that was added last.
func (s *Sink) Last(n int) []byte { return s.buf[len(s.buf)-n:] }

// Flush writes what is left, and returns the first error of all.
func (s *Sink) Flush() error {
	if s.err == nil && len(s.buf) > 0 {
		_, s.err = s.w.WriteAt(s.buf, s.off)
		s.off += int64(len(s.buf))
	}
	s.buf = s.buf[:0]
	return s.err
}
