package layout

// Section is an array in the file.
type Section struct {
	Offset    uint64 // bytes from the file's start
	Count     uint32 // entries in use
	Capacity  uint32 // entries that there is room for
	EntrySize uint32 // bytes
}

// End is the offset one past the section's capacity.
func (s Section) End() uint64 { return s.Offset + uint64(s.Capacity)*uint64(s.EntrySize) }

// Geometry says where the parts of a table lie. Rows come last, so that a
// shorter file has fewer of them.
type Geometry struct {
	Size          uint64 // apparent size of the file, bytes
	Objects       Section
	Functions     Section
	Aliases       Section
	Strings       Section
	Events        Section
	Fired         Section
	Formers       Section // empty in tables of older versions
	Baselines     Section // as well
	Missed        Section // as well
	Blocks        Section // empty where blocks are not counted
	Ways          Section // as well
	Loops         Section // as well
	Folded        Section // empty where no tables were folded into it
	Sites         Section // empty where calls are not counted by site
	Rows          Section // EntrySize is the stride from row to row
	Counters      uint32  // in use in every row
	CountersCap   uint32  // that a row has room for
	BlockCounters         // of those in use
}

// Add appends a section that starts on a page of its own.
func (g *Geometry) Add(count, capacity int, size uint32) Section {
	s := Section{Offset: g.Size, Count: uint32(count), Capacity: uint32(capacity), EntrySize: size}
	g.Size = RoundUp(s.End())
	return s
}

// RoundUp is n or the next multiple of the page size.
func RoundUp(n uint64) uint64 { return (n + PageSize - 1) &^ (PageSize - 1) }

// BaselineIn takes a value of HdrBaseline apart.
func BaselineIn(word uint64) (number uint32) { return uint32(word&0xff) - 1 }

// BaselineParts are the counts of the baseline at that offset.
func (g *Geometry) BaselineParts(at uint64) (counters, rows Section) {
	counters = Section{Offset: at + BlCounts, EntrySize: 8}
	rows = Section{Offset: at + BlCounts + 8*uint64(g.CountersCap), EntrySize: 8}
	return counters, rows
}

// BlockCounters are the counters of a row that are of blocks, or of call sites, and of no function,
// of what was there at the start.
type BlockCounters struct{ First, Count uint32 }
