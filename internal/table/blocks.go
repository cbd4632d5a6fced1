package table

import "github.com/dynprof/dynprof/internal/table/layout"

// Block is a block of a function, and how often it has run. Where a table is of a program
// that runs, numbers of blocks are not of one moment.
type Block struct {
	layout.Block
	Runs uint64
}

// Executed is how many instructions of the block have run: all of them each time, but for
// those behind one that faulted, or was a call that did not come back.
func (b *Block) Executed() uint64 { return b.Runs * uint64(b.Instructions) }

// HasBlocks reports whether the table counts blocks.
func (t *Table) HasBlocks() bool { return t.Geometry.Blocks.Count > 0 }

// Blocks reads the blocks, by function and address; none where they are not counted. s is
// a snapshot of the table, for the calls of functions.
func (t *Table) Blocks(s *Snapshot) (list []Block, err error) {
	if !t.HasBlocks() {
		return nil, nil
	}
	err = t.EachEntry(t.Geometry.Blocks, func(b []byte) error {
		k, n := Block{Block: layout.DecodeBlock(b)}, len(list)
		if n > 0 && k.Function < list[n-1].Function || k.Function >= uint32(len(t.Functions)) || k.Counter != layout.NoCounter && k.Counter-t.BlockCounters.First >= t.BlockCounters.Count ||
			k.After != layout.NoBlock && k.After >= uint32(n) || k.Instructions == 0 {
			return layout.Corrupt("block %d: %+v", n, k.Block)
		}
		list = append(list, k)
		return nil
	})
	if err != nil {
		return nil, err
	}
	counts, err := t.blockCounts(len(list))
	if err != nil {
		return nil, err
	}
	for i := range list {
		k := &list[i]
		if k.Counter != layout.NoCounter {
			k.Runs = counts[k.Counter-t.BlockCounters.First]
		}
		if k.Flags&layout.BlockEntry != 0 {
			k.Runs += s.Calls[k.Function]
		}
		if k.After != layout.NoBlock {
			k.Runs += list[k.After].Runs
		}
	}
	return list, nil
}

// blockCounts adds up the counters of blocks, of which there are so many: there are no
// more counters.
func (t *Table) blockCounts(blocks int) ([]uint64, error) {
	c := t.BlockCounters
	if int64(c.Count) > int64(blocks) {
		return nil, layout.Corrupt("%d counters of %d blocks", c.Count, blocks)
	}
	used, err := t.U32(layout.HdrRowsUsed)
	if err != nil {
		return nil, err
	}
	counts := make([]uint64, c.Count)
	perRow := uint64(t.Geometry.Rows.EntrySize) / layout.PageSize
	return counts, t.eachPage(min(used, t.Geometry.Rows.Capacity), func(page uint64, b []byte) {
		first, b := countersOf(page%perRow, b)
		for ; len(b) > 0; b, first = b[8:], first+1 {
			if i := first - uint64(c.First); i < uint64(c.Count) {
				counts[i] += le.Uint64(b) &^ layout.CounterFired
			}
		}
	})
}
