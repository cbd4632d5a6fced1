package agent

import (
	"github.com/dynprof/dynprof/internal/overhead"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// observed is a function whose blocks can be counted or not: its copies have a switch.
type observed struct {
	number  uint32   // in the table
	counter uint32   // of its calls
	blocks  []uint32 // counters of its blocks and ways
	was, on bool     // its blocks have ever been counted, and are,
	shall   bool     // and shall be until the next look
}

// roster lists these functions.
type roster struct {
	functions  []observed
	generation uint32          // of the table, when it was read
	read       layout.Geometry // what of its sections has been
}

// more adds the functions of objects that the table has got since it was read last, and
// returns what a chooser needs to know of them. While objects are being added there are none.
func (r *roster) more(t *file.File) (asked []overhead.Function, err error) {
	generation, err := t.U32(layout.HdrGeneration)
	if err != nil || generation == r.generation && r.read.Functions.Offset != 0 {
		return nil, err
	}
	if err := t.ReadHead(); err != nil || t.Generation&1 != 0 {
		return nil, err
	}
	all, asked, err := r.behind(t)
	if err != nil {
		return nil, err
	}
	if again, err := t.U32(layout.HdrGeneration); err != nil || again != t.Generation {
		return nil, err
	}
	r.functions, r.generation, r.read = append(r.functions, all...), t.Generation, t.Geometry
	return asked, nil
}

// rest is what of a section lies behind what has been read of it.
func rest(s, read layout.Section) layout.Section {
	n := min(read.Count, s.Count)
	s.Offset, s.Count = s.Offset+uint64(n)*uint64(s.EntrySize), s.Count-n
	return s
}

// behind lists the functions behind those that have been read.
func (r *roster) behind(t *file.File) (all []observed, asked []overhead.Function, err error) {
	var function []uint32 // of each block
	counters, switched := map[uint32][]uint32{}, map[uint32]bool{}
	note := func(f, counter uint32) {
		if counter != layout.NoCounter {
			counters[f] = append(counters[f], counter)
		}
	}
	if err := t.EachEntry(rest(t.Blocks, r.read.Blocks), func(b []byte) error {
		k := layout.DecodeBlock(b)
		function = append(function, k.Function)
		note(k.Function, k.Counter)
		return nil
	}); err != nil {
		return nil, nil, err
	}
	if err := t.EachEntry(rest(t.Ways, r.read.Ways), func(b []byte) error {
		w := layout.DecodeWay(b)
		at := w.Block() - r.read.Blocks.Count
		if at >= uint32(len(function)) {
			return layout.Corrupt("a way of block %d, of %d behind %d", w.Block(), len(function), r.read.Blocks.Count)
		}
		note(function[at], w.Counter)
		if w.Flags&layout.WayEntry != 0 && w.Flags&layout.WayCalls == 0 {
			switched[function[at]] = true
		}
		return nil
	}); err != nil {
		return nil, nil, err
	}
	number := r.read.Functions.Count
	err = t.EachEntry(rest(t.Functions, r.read.Functions), func(b []byte) error {
		if f := layout.DecodeFunction(b); switched[number] && f.Counter != layout.NoCounter {
			asked = append(asked, overhead.Function{Threshold: t.HotAt(&f), Counters: len(counters[number])})
			all = append(all, observed{number: number, counter: f.Counter, blocks: counters[number]})
		}
		number++
		return nil
	})
	return all, asked, err
}
