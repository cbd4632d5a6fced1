package agent

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

var le = binary.LittleEndian

// counters are the sums of all rows' words.
type counters struct {
	sums []uint64
	buf  []byte
}

// read adds up all rows.
func (c *counters) read(t *file.File) error {
	var head [layout.HdrRowsUsed + 4]byte
	if err := t.ReadAt(head[:], 0); err != nil {
		return err
	}
	if err := t.CheckWhole(head[:], t.Nonce); err != nil {
		return err
	}
	used := min(le.Uint32(head[layout.HdrRowsUsed:]), t.Geometry.Rows.Capacity)
	if c.buf == nil {
		c.buf = make([]byte, layout.Chunk)
	}
	if n := int(t.Geometry.Counters); n != len(c.sums) {
		c.sums = make([]uint64, n)
	}
	clear(c.sums)
	perRow := uint64(t.Geometry.Rows.EntrySize) / layout.PageSize
	pages := layout.Section{Offset: t.Geometry.Rows.Offset, EntrySize: layout.PageSize}
	return t.EachDataIn(c.buf, pages, uint64(used)*perRow, func(page uint64, b []byte) error {
		for ; len(b) > 0; b = b[layout.PageSize:] {
			c.addPage(page%perRow, b[:layout.PageSize])
			page++
		}
		return nil
	})
}

// addPage adds the n-th page of a row.
func (c *counters) addPage(n uint64, b []byte) {
	const words = layout.PageSize / 8
	first, skip := n*words-layout.RowCounters/8, uint64(0)
	if n == 0 {
		first, skip = 0, layout.RowCounters
	}
	for i := skip; i < layout.PageSize && first < uint64(len(c.sums)); i += 8 {
		c.sums[first] += le.Uint64(b[i:]) &^ layout.CounterFired
		first++
	}
}

// of is the sum of a counter.
func (c *counters) of(counter uint32) uint64 {
	if counter >= uint32(len(c.sums)) {
		return 0
	}
	return c.sums[counter]
}
