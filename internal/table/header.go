package table

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"
)

// readHeader returns the header and its bytes. A table that is still being
// built has a header of zeros and a size.
func readHeader(r io.ReaderAt, size int64) (*Header, []byte, error) {
	raw := make([]byte, HeaderSize)
	n, err := r.ReadAt(raw, 0)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	magic := raw[:len(Magic)]
	switch {
	case n == HeaderSize && size > HeaderSize && allZero(raw):
		return nil, nil, ErrBuilding
	case string(magic) != Magic:
		return nil, nil, ErrNotTable
	case n < HeaderSize:
		return nil, nil, ErrTruncated
	}
	if v := le.Uint32(raw[HdrVersion:]); v > VersionReset {
		return nil, nil, fmt.Errorf("format %d, this program knows %d: %w", v, VersionReset, ErrVersion)
	} else if v < Version {
		return nil, nil, fmt.Errorf("format %d: %w", v, ErrCorrupt)
	}
	h := decodeHeader(raw)
	if err := h.readStrings(r, raw, size); err != nil {
		return nil, nil, err
	}
	return h, raw, nil
}

func decodeHeader(raw []byte) *Header {
	h := &Header{
		Identity: Identity{
			Pid:        le.Uint32(raw[HdrPid:]),
			UID:        le.Uint32(raw[HdrUID:]),
			StartTicks: le.Uint64(raw[HdrStartTicks:]),
			PidNS:      le.Uint64(raw[HdrPidNS:]),
			Realtime:   time.Unix(0, int64(le.Uint64(raw[HdrRealtime:]))),
			Monotonic:  le.Uint64(raw[HdrMonotonic:]),
		},
		State:     le.Uint32(raw[HdrState:]),
		Flags:     le.Uint32(raw[HdrFlags:]),
		Threshold: le.Uint64(raw[HdrThreshold:]),
		Ended: Ended{
			Kind: le.Uint32(raw[HdrEnded:]),
			Code: le.Uint32(raw[HdrEndedCode:]),
		},
	}
	h.Unlisted = Unlisted{le.Uint64(raw[HdrCodeAnonymous:]), le.Uint64(raw[HdrCodeInFiles:])}
	if ns := le.Uint64(raw[HdrSnapshot:]); ns != 0 {
		h.Snapshot = time.Unix(0, int64(ns))
	}
	if h.Ended.Kind != EndedUnknown {
		h.Ended.Time = time.Unix(0, int64(le.Uint64(raw[HdrEndedTime:])))
	}
	copy(h.BootID[:], raw[HdrBootID:])
	copy(h.RunID[:], raw[HdrRunID:])
	copy(h.Nonce[:], raw[HdrNonce:])
	return h
}

// readStrings reads the strings of the header without the others.
func (h *Header) readStrings(r io.ReaderAt, raw []byte, size int64) error {
	if h.State != StateLive {
		return nil // not written yet
	}
	if err := checkSize(raw, size); err != nil {
		return err
	}
	s, err := decodeSection(raw, HdrStrings, 1, 1, uint64(size))
	if err != nil {
		return err
	}
	for _, field := range []struct {
		to *string
		at int
	}{{&h.Program, HdrProgram}, {&h.Creator, HdrCreator}, {&h.Listen, HdrListen}} {
		if *field.to, err = readString(r, s, le.Uint32(raw[field.at:])); err != nil {
			return err
		}
	}
	return nil
}

// readString reads one string of section s; 0 is the empty one.
func readString(r io.ReaderAt, s Section, off uint32) (string, error) {
	if off == 0 {
		return "", nil
	}
	if off >= s.Count {
		return "", corrupt("string at %d of %d", off, s.Count)
	}
	b := make([]byte, 0, 512)
	for {
		n := min(cap(b), MaxString+1, int(s.Count-off))
		if n == len(b) {
			return "", corrupt("string at %d has no end", off)
		}
		start := len(b)
		b = b[:n]
		if _, err := readAt(r, b[start:], int64(s.Offset)+int64(off)+int64(start)); err != nil {
			return "", err
		}
		if end := bytes.IndexByte(b[start:], 0); end >= 0 {
			return string(b[:start+end]), nil
		}
		b = slices.Grow(b, 2*len(b))
	}
}

// decodeGeometry checks every section against the file's size.
func decodeGeometry(raw []byte, size int64) (Geometry, error) {
	g := Geometry{
		Size:        le.Uint64(raw[HdrFileSize:]),
		Counters:    le.Uint32(raw[HdrCounters:]),
		CountersCap: le.Uint32(raw[HdrCountersCap:]),
	}
	if err := checkSize(raw, size); err != nil {
		return g, err
	}
	for _, s := range []struct {
		to    *Section
		at    int
		entry uint32 // least entry size
		align uint64
	}{
		{&g.Objects, HdrObjects, LeastObjEntrySize, 8},
		{&g.Functions, HdrFunctions, FnEntrySize, 8},
		{&g.Aliases, HdrAliases, 4, 4},
		{&g.Strings, HdrStrings, 1, 1},
		{&g.Events, HdrEvents, LeastEvEntrySize, 8},
		{&g.Fired, HdrFired, 4, 4},
		{&g.Formers, HdrFormers, FmEntrySize, 8},
		{&g.Baselines, HdrBaselines, PageSize, PageSize},
		{&g.Missed, HdrMissed, MsEntrySize, 8},
		{&g.Rows, HdrRows, PageSize, PageSize},
	} {
		var err error
		if (s.at == HdrFormers || s.at == HdrBaselines || s.at == HdrMissed) && le.Uint64(raw[s.at+SecOffset:]) == 0 {
			continue // written by an older version
		}
		if *s.to, err = decodeSection(raw, s.at, s.entry, s.align, g.Size); err != nil {
			return g, err
		}
	}
	if g.Counters > g.CountersCap || g.Fired.Capacity < g.Counters ||
		RowCounters+8*uint64(g.CountersCap) > uint64(g.Rows.EntrySize) {
		return g, corrupt("%d of %d counters in rows of %d bytes", g.Counters, g.CountersCap, g.Rows.EntrySize)
	}
	if g.Baselines.Capacity > 0 && BlCounts+8*(uint64(g.CountersCap)+uint64(g.Rows.Capacity)) > uint64(g.Baselines.EntrySize) {
		return g, corrupt("baselines of %d bytes for %d counters and %d rows", g.Baselines.EntrySize, g.CountersCap, g.Rows.Capacity)
	}
	return g, nil
}

// checkSize compares the size that the header tells with the file's.
func checkSize(raw []byte, size int64) error {
	if want := le.Uint64(raw[HdrFileSize:]); size < 0 || want > uint64(size) {
		return fmt.Errorf("%d of %d bytes: %w", size, want, ErrTruncated)
	}
	return nil
}

// decodeSection checks that the section lies in a file of size bytes. Entries
// may be longer than this version knows, never shorter.
func decodeSection(raw []byte, at int, entry uint32, align, size uint64) (Section, error) {
	s := Section{
		Offset:    le.Uint64(raw[at+SecOffset:]),
		Count:     le.Uint32(raw[at+SecCount:]),
		Capacity:  le.Uint32(raw[at+SecCapacity:]),
		EntrySize: le.Uint32(raw[at+SecEntrySize:]),
	}
	fits := s.Offset <= size && uint64(s.Capacity)*uint64(s.EntrySize) <= size-s.Offset
	if !fits || s.Offset < HeaderSize || s.Count > s.Capacity || s.EntrySize < entry ||
		s.Offset%align != 0 || uint64(s.EntrySize)%align != 0 || s.EntrySize > PageSize && align != PageSize {
		return s, corrupt("section at header offset %#x: %d of %d entries of %d bytes at %d, file of %d bytes",
			at, s.Count, s.Capacity, s.EntrySize, s.Offset, size)
	}
	return s, nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
