package layout

import "fmt"

// DecodeGeometry checks every section against the file's size.
func DecodeGeometry(raw []byte, size int64) (Geometry, error) {
	g := Geometry{
		Size:        le.Uint64(raw[HdrFileSize:]),
		Counters:    le.Uint32(raw[HdrCounters:]),
		CountersCap: le.Uint32(raw[HdrCountersCap:]),

		BlockCounters: BlockCounters{le.Uint32(raw[HdrBlocksFirst:]), le.Uint32(raw[HdrBlocksCount:])},
	}
	if err := CheckSize(raw, size); err != nil {
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
		{&g.Blocks, HdrBlocks, BkEntrySize, 8},
		{&g.Ways, HdrWays, WyEntrySize, 8},
		{&g.Loops, HdrLoops, LpEntrySize, 8},
		{&g.Folded, HdrFolded, FdEntrySize, 8},
		{&g.Sites, HdrSites, StEntrySize, 8},
		{&g.Rows, HdrRows, PageSize, PageSize},
	} {
		var err error
		if isOptional(s.at) && le.Uint64(raw[s.at+SecOffset:]) == 0 {
			continue // written by an older version, or without blocks, or sites
		}
		if *s.to, err = decodeSection(raw, s.at, s.entry, s.align, g.Size); err != nil {
			return g, err
		}
	}
	if g.Counters > g.CountersCap || g.Fired.Capacity < g.Counters ||
		RowCounters+8*uint64(g.CountersCap) > uint64(g.Rows.EntrySize) {
		return g, Corrupt("%d of %d counters in rows of %d bytes", g.Counters, g.CountersCap, g.Rows.EntrySize)
	}
	if b := g.BlockCounters; uint64(b.First)+uint64(b.Count) > uint64(g.Counters) {
		return g, Corrupt("%d counters of blocks from %d on, of %d", b.Count, b.First, g.Counters)
	}
	if g.Baselines.Capacity > 0 && BlCounts+8*(uint64(g.CountersCap)+uint64(g.Rows.Capacity)) > uint64(g.Baselines.EntrySize) {
		return g, Corrupt("baselines of %d bytes for %d counters and %d rows", g.Baselines.EntrySize, g.CountersCap, g.Rows.Capacity)
	}
	return g, nil
}

// isOptional reports whether a section, by the offset of its place in the header, may not be
// there.
func isOptional(at int) bool {
	switch at {
	case HdrFormers, HdrBaselines, HdrMissed, HdrBlocks, HdrWays, HdrLoops, HdrSites, HdrFolded:
		return true
	}
	return false
}

// CheckSize compares the size that the header tells with the file's.
func CheckSize(raw []byte, size int64) error {
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
		return s, Corrupt("section at header offset %#x: %d of %d entries of %d bytes at %d, file of %d bytes",
			at, s.Count, s.Capacity, s.EntrySize, s.Offset, size)
	}
	return s, nil
}

// EncodeGeometry stores where the parts lie in a header.
func EncodeGeometry(h []byte, g *Geometry) {
	le.PutUint64(h[HdrFileSize:], g.Size)
	for at, s := range map[int]Section{
		HdrObjects: g.Objects, HdrFunctions: g.Functions, HdrAliases: g.Aliases, HdrStrings: g.Strings,
		HdrEvents: g.Events, HdrFired: g.Fired, HdrRows: g.Rows,
		HdrFormers: g.Formers, HdrBaselines: g.Baselines, HdrMissed: g.Missed, HdrBlocks: g.Blocks, HdrWays: g.Ways, HdrLoops: g.Loops,
		HdrSites: g.Sites, HdrFolded: g.Folded,
	} {
		encodeSection(h[at:], s)
	}
	le.PutUint32(h[HdrCounters:], g.Counters)
	le.PutUint32(h[HdrCountersCap:], g.CountersCap)
	le.PutUint32(h[HdrBlocksFirst:], g.BlockCounters.First)
	le.PutUint32(h[HdrBlocksCount:], g.BlockCounters.Count)
}

func encodeSection(b []byte, s Section) {
	le.PutUint64(b[SecOffset:], s.Offset)
	le.PutUint32(b[SecCount:], s.Count)
	le.PutUint32(b[SecCapacity:], s.Capacity)
	le.PutUint32(b[SecEntrySize:], s.EntrySize)
}
