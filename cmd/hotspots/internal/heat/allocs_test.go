package heat

import (
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// TestAllocsTouched: what was touched of a block is what was so in slices in which it was there, of several at an
// address one after the other for each.
func TestAllocsTouched(t *testing.T) {
	table := filepath.Join(t.TempDir(), "a.dynprof")
	l := heat.Log{Granule: heat.Line, Apart: 1}
	if err := l.Open(table, [16]byte{}, &heat.Maps{}); err != nil {
		t.Fatal(err)
	}
	for i, what := range []heat.What{heat.WasWritten, heat.WasRead, heat.WasExecuted, heat.WasWritten} {
		l.Add(&heat.Slice{Executed: uint64(i+1) * 100, Time: uint64(i+1) * 10, Parts: 1, Ranges: []heat.Range{{First: 0x1000 >> heat.Line, Pages: uint64(i + 1), What: what}}})
	}
	f, err := heat.Read(table, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	block := func(born, died uint64) heat.Block {
		return heat.Block{Address: 0x1000, Bytes: 200, Born: born, Died: died, Live: died == 0}
	}
	for _, row := range []struct {
		heat.Block
		read, written, untouched uint64
	}{
		{block(0, 10), 0, 1, 136},
		{block(0, 15), 2, 1, 72},
		{block(11, 20), 2, 0, 72},
		{block(21, 30), 0, 0, 200},
		{block(21, 0), 0, 4, 0},
		{block(41, 0), 0, 0, 200},
	} {
		a := Allocs{Allocs: &heat.Allocs{Blocks: []heat.Block{row.Block}}, Sites: make([]Site, 1)}
		a.touch(f.In(f.Noted))
		if s := a.Sites[0]; s.Known != 1 || s.Granules != 4 || s.Read != row.read || s.Written != row.written || s.Untouched != row.untouched {
			t.Errorf("%+v: %+v", row, s)
		}
	}
}

// TestAllocsMost: bytes that are of no use at a time are those of blocks that were there together for certain.
func TestAllocsMost(t *testing.T) {
	table := filepath.Join(t.TempDir(), "a.dynprof")
	l := heat.Log{Granule: heat.Line, Apart: 1}
	if err := l.Open(table, [16]byte{}, &heat.Maps{}); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(6) {
		l.Add(&heat.Slice{Executed: i + 1, Time: (i + 1) * 10, Parts: 1, Ranges: []heat.Range{{First: 0x10000 >> heat.Line, Pages: 2, What: heat.WasWritten}}})
	}
	f, err := heat.Read(table, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	block := func(caller uint32, at, bytes, born, died uint64) heat.Block {
		return heat.Block{Address: at, Bytes: bytes, Caller: caller, Born: born, Died: died, Live: died == 0}
	}
	a := Allocs{Sites: make([]Site, 3), Allocs: &heat.Allocs{Blocks: []heat.Block{
		block(0, 0x20000, 100, 10, 50), block(0, 0x30000, 200, 10, 40), block(0, 0x40000, 1000, 50, 60), // the last came later, if it was there at all
		block(1, 0xf000, 0x3000, 0, 0), block(1, 0x50000, 8, 55, 0), // to the end
		block(2, 0x60000, 500, 10, 20), block(2, 0x60000, 500, 20, 30), // between two looks
		block(2, 0x10020, 0x40, 10, 0), // others may have written what it has of lines
	}}}
	a.touch(f.In(f.Noted))
	for i, want := range []Idle{{Untouched: 300}, {Untouched: 0x3000 - 128 + 8, Unmade: 2, Unread: 128}, {}} {
		if got := a.Sites[i].Most; got != want {
			t.Errorf("site %d: %+v, not %+v", i, got, want)
		}
	}
}
