package plancache

import (
	"iter"
	"slices"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// CountBlocks is the number of blocks.
func (f *Flow) CountBlocks() int { return len(f.Blocks) / layout.BkEntrySize }

// CountWays is the number of ways between them.
func (f *Flow) CountWays() int { return len(f.Ways) / layout.WyEntrySize }

// CountLoops is the number of loops.
func (f *Flow) CountLoops() int { return len(f.Loops) / layout.LpEntrySize }

// CountSites is the number of call sites.
func (p *Plan) CountSites() int { return len(p.Sites) / layout.StEntrySize }

// AddSite adds a call site behind those that there are.
func (p *Plan) AddSite(s *layout.Site) { s.Encode(next(&p.Sites, layout.StEntrySize)) }

// GrowSites makes room for so many more, at once.
func (p *Plan) GrowSites(n int) { p.Sites = slices.Grow(p.Sites, n*layout.StEntrySize) }

// EachSite yields the call sites.
func (p *Plan) EachSite() iter.Seq[layout.Site] {
	return each(p.Sites, layout.StEntrySize, layout.DecodeSite)
}

// checkSites: what sites refer to is there. Their stubs are in front of the cold blocks.
func (p *Plan) checkSites() error {
	for s := range p.EachSite() {
		if s.Caller >= uint32(p.Count()) || s.Callee >= uint32(p.Count()) {
			return corrupt("site %+v", s)
		}
		if s.Counter != layout.NoCounter && (s.Counter >= p.BlockCounters || uint64(s.Stub)+uint64(s.Count) > p.Cold) {
			return corrupt("site %+v", s)
		}
	}
	return nil
}

// Grow makes room for so many more, at once.
func (f *Flow) Grow(blocks, ways, loops int) {
	f.Blocks = slices.Grow(f.Blocks, blocks*layout.BkEntrySize)
	f.Ways = slices.Grow(f.Ways, ways*layout.WyEntrySize)
	f.Loops = slices.Grow(f.Loops, loops*layout.LpEntrySize)
}

// AddBlock adds a block behind those that there are.
func (f *Flow) AddBlock(b *layout.Block) { b.Encode(next(&f.Blocks, layout.BkEntrySize)) }

// AddWay adds a way.
func (f *Flow) AddWay(w *layout.Way) { w.Encode(next(&f.Ways, layout.WyEntrySize)) }

// AddLoop adds a loop.
func (f *Flow) AddLoop(l *layout.Loop) { l.Encode(next(&f.Loops, layout.LpEntrySize)) }

// next is one more entry of a list, of zeros.
func next(list *[]byte, size int) []byte {
	n := len(*list)
	*list = slices.Grow(*list, size)[:n+size]
	entry := (*list)[n:]
	clear(entry)
	return entry
}

// EachBlock yields the blocks.
func (f *Flow) EachBlock() iter.Seq[layout.Block] {
	return each(f.Blocks, layout.BkEntrySize, layout.DecodeBlock)
}

// EachWay yields the ways.
func (f *Flow) EachWay() iter.Seq[layout.Way] {
	return each(f.Ways, layout.WyEntrySize, layout.DecodeWay)
}

// EachLoop yields the loops.
func (f *Flow) EachLoop() iter.Seq[layout.Loop] {
	return each(f.Loops, layout.LpEntrySize, layout.DecodeLoop)
}

func each[T any](list []byte, size int, decode func([]byte) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for ; len(list) > 0; list = list[size:] {
			if !yield(decode(list)) {
				return
			}
		}
	}
}

// checkFlow: what blocks, ways and loops refer to is there.
func (p *Plan) checkFlow() error {
	blocks, loops := uint32(p.CountBlocks()), uint32(p.CountLoops())
	isCounter := func(n uint32) bool { return n < p.BlockCounters || n == layout.NoCounter }
	isBlock := func(n uint32) bool { return n < blocks || n == layout.NoBlock }
	isLoop := func(n uint32) bool { return n < loops || n == layout.NoLoop }
	words := uint64(p.Sets) * layout.SetWords // of slots, the last
	most := uint64(blocks) + uint64(len(p.Ways)/layout.WyEntrySize) + uint64(p.CountSites()) + words
	if words > uint64(p.BlockCounters) || p.Sets&(p.Sets-1) != 0 {
		return corrupt("%d sets of slots in %d counters", p.Sets, p.BlockCounters)
	}
	notes := uint64(p.BlockCounters) - words // they end in front of the slots
	for b := range p.EachBlock() {
		isCallee := b.Callee <= uint32(p.Count())
		if b.Flags&layout.BlockNote != 0 {
			isCallee = uint64(b.Callee)+layout.NtWords <= notes && p.Sets > 0
			most += layout.NtWords
		}
		if b.Function >= uint32(p.Count()) || !isCounter(b.Counter) || !isBlock(b.After) || !isLoop(b.Loop) || !isCallee {
			return corrupt("block %+v", b)
		}
	}
	for l := range p.EachLoop() {
		if l.Header >= blocks || !isLoop(l.Parent) || l.Trips != 0 && uint64(l.Trips)+layout.TrWords > notes {
			return corrupt("loop %+v", l)
		}
		if l.Trips != 0 {
			most += layout.TrWords
		}
	}
	if uint64(p.BlockCounters) > most {
		return corrupt("%d counters of %d blocks, and their ways, loops, notes and slots, and sites", p.BlockCounters, blocks)
	}
	for w := range p.EachWay() {
		if !isBlock(w.From) || !isBlock(w.To) || !isCounter(w.Counter) {
			return corrupt("way %+v", w)
		}
	}
	return nil
}
