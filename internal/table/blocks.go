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

// Blocks reads the blocks, by function and address; none where they are not counted.
func (t *Table) Blocks() (list []Block, err error) {
	if !t.HasBlocks() {
		return nil, nil
	}
	counts, err := t.sumCounters()
	if err != nil {
		return nil, err
	}
	calls := func(function uint32) uint64 {
		if c := t.Functions[function].Counter; c < uint32(len(counts)) {
			return counts[c]
		}
		return 0
	}
	err = t.EachEntry(t.Geometry.Blocks, func(b []byte) error {
		k, n := Block{Block: layout.DecodeBlock(b)}, uint32(len(list))
		before := uint32(0)
		if n > 0 {
			before = list[n-1].Function
		}
		if k.Function < before || k.Function >= uint32(len(t.Functions)) || k.Counter != layout.NoCounter && k.Counter >= t.Counters ||
			k.After != layout.NoBlock && k.After >= n || k.Instructions == 0 {
			return layout.Corrupt("block %d: %+v", n, k.Block)
		}
		if k.Counter != layout.NoCounter {
			k.Runs = counts[k.Counter]
		}
		if k.Flags&layout.BlockEntry != 0 {
			k.Runs += calls(k.Function)
		}
		if k.After != layout.NoBlock {
			k.Runs += list[k.After].Runs
		}
		list = append(list, k)
		return nil
	})
	return list, err
}
