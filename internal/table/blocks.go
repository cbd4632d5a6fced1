package table

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/table/layout"
)

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
	c := t.BlockCounters
	if int64(c.Count) > int64(len(list)) { // there are no more counters than blocks
		return nil, layout.Corrupt("%d counters of %d blocks", c.Count, len(list))
	}
	counts, err := t.sumCounters(c.First, c.Count)
	if err != nil {
		return nil, err
	}
	for i := range list {
		k := &list[i]
		if k.Counter != layout.NoCounter {
			k.Runs = counts[k.Counter-c.First]
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

// OfFunction are the blocks of one function, of those that a table has.
func OfFunction(blocks []Block, function uint32) []Block {
	compare := func(b Block, function uint32) int { return cmp.Compare(b.Function, function) }
	low, _ := slices.BinarySearchFunc(blocks, function, compare)
	high, _ := slices.BinarySearchFunc(blocks, function+1, compare)
	return blocks[low:high]
}
