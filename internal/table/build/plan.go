package build

import (
	"fmt"
	"iter"
	"strings"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// plan lays out a table for spec with at most maxRows rows.
func plan(spec *Spec, maxRows int, spare bool) (*layout.Geometry, error) {
	nStrings, nAliases, functions, counters := measure(spec)
	nStrings, nAliases = nStrings+1, nAliases+1 // the empty ones come first
	if nStrings > MaxStrings {
		return nil, fmt.Errorf("the names of %d functions take %d bytes, more than a count table holds (%d)",
			functions, nStrings, MaxStrings)
	}
	if len(spec.Objects) > MaxObjects {
		return nil, fmt.Errorf("%d objects are more than a count table holds (%d)", len(spec.Objects), MaxObjects)
	}
	extra := func(n int) int {
		if spare {
			return n
		}
		return 0
	}
	more := extra(SpareFunctions)
	if spec.ShortSpace {
		more = extra(SpareFunctionsShort)
	}
	g := &layout.Geometry{Size: layout.HeaderSize, Counters: uint32(counters)}
	later := spareOf(spec, spare)
	g.CountersCap = uint32(counters + more + later.Counters)
	// What the program stores into comes first: it maps no more than that.
	events := SpareEvents
	if spec.Flags&layout.FlagThreshold != 0 {
		events += counters + extra(MoreEvents)
	}
	g.Missed = g.Add(MaxMissed, MaxMissed, layout.MsEntrySize)
	g.Formers = g.Add(MaxFormers, MaxFormers, layout.FmEntrySize)
	g.Events = g.Add(events, events, layout.EvEntrySize)
	g.Fired = g.Add(counters, int(g.CountersCap), 4)
	g.Objects = g.Add(len(spec.Objects), max(len(spec.Objects), extra(MaxObjects)), layout.ObjEntrySize)
	g.Functions = g.Add(functions, functions+more, layout.FnEntrySize)
	g.Aliases = g.Add(nAliases, nAliases+more, 4)
	g.Strings = g.Add(nStrings, nStrings+extra(SpareStrings), 1)
	if b := spec.Blocks; b != nil {
		add := func(n, more int, size uint32) layout.Section { return g.Add(n, n+more, size) }
		g.Blocks, g.BlockCounters = add(length(b.Each), later.Blocks, layout.BkEntrySize), b.Counters
		g.Ways, g.Loops = add(length(b.Ways), later.Ways, layout.WyEntrySize), add(length(b.Loops), later.Loops, layout.LpEntrySize)
	}
	if s := spec.Sites; s != nil {
		n := length(s.Each)
		g.Sites, g.BlockCounters = g.Add(n, n+later.Sites, layout.StEntrySize), s.Counters
	}

	stride := layout.RoundUp(layout.RowCounters + 8*uint64(g.CountersCap))
	if stride > 1<<31 {
		return nil, fmt.Errorf("%d counters are more than a row can address", counters)
	}
	baselines := MaxBaselines * (layout.BlCounts + 8*uint64(g.CountersCap) + layout.PageSize)
	rows := max(MinRows, int((MaxFileSize-g.Size-baselines)/(stride+8*MaxBaselines)))
	if rows = min(rows, MaxRows, maxRows); rows < RowsReserved {
		rows = RowsReserved
	}
	baseline := layout.RoundUp(layout.BlCounts + 8*uint64(g.CountersCap) + 8*uint64(rows))
	g.Baselines = g.Add(MaxBaselines, MaxBaselines, uint32(baseline))
	g.Rows = g.Add(rows, rows, uint32(stride))
	return g, nil
}

// spareOf is the room for blocks, or call sites, of objects that come later, where these are
// counted.
func spareOf(spec *Spec, spare bool) (r Room) {
	if !spare {
		return r
	}
	less := 1
	if spec.ShortSpace {
		less = BlocksShort
	}
	if spec.Blocks != nil {
		r = Room{Blocks: SpareBlocks / less, Ways: SpareWays / less, Loops: SpareLoops / less, Counters: SpareBlockCounters / less}
	}
	if spec.Sites != nil {
		r.Sites, r.Counters = SpareSites/less, SpareSites/less
	}
	return r
}

func length[T any](list iter.Seq[T]) (n int) {
	for range list {
		n++
	}
	return n
}

// measure returns the bytes of all strings, the entries of all alias lists, and
// the number of functions and of counters.
func measure(spec *Spec) (stringBytes, aliases, functions, counters int) {
	stringBytes = stored(spec.Program) + stored(spec.Creator) + stored(spec.Listen) + stored(spec.Arguments)
	for i := range spec.Objects {
		stringBytes += stored(spec.Objects[i].Path) + stored(spec.Objects[i].BuildID)
	}
	for f := range spec.functions() {
		functions++
		bytes, list := lengths(f)
		stringBytes, aliases = stringBytes+bytes, aliases+list
		if f.Counter != layout.NoCounter {
			counters = max(counters, int(f.Counter)+1)
		}
	}
	if b := spec.Blocks; b != nil {
		counters = max(counters, int(b.Counters.First+b.Counters.Count))
	}
	if s := spec.Sites; s != nil {
		counters = max(counters, int(s.Counters.First+s.Counters.Count))
	}
	return stringBytes, aliases, functions, counters
}

// lengths returns the bytes of f's strings and the entries of its list of aliases.
func lengths(f *layout.Function) (stringBytes, aliases int) {
	stringBytes = stored(f.Name)
	for _, a := range f.Aliases {
		if n := stored(a); n > 0 {
			stringBytes += n
			aliases++
		}
	}
	if aliases > 0 {
		aliases++
	}
	return stringBytes, aliases
}

// stored is the room that s takes among the strings: none if it is empty.
func stored(s string) int {
	if s = storable(s); s == "" {
		return 0
	}
	return len(s) + 1
}

// storable cuts s where a reader would end it.
func storable(s string) string {
	if len(s) > layout.MaxString {
		s = s[:layout.MaxString]
	}
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return s
}
