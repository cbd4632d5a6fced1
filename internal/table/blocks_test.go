package table_test

import (
	"bytes"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// blocksSpec is a program of which two functions' blocks are counted: the first is one
// block; the second is
//
//	entry:  a, calls on, and goes on at b, or at c
//	b:      jumps to a, or goes on at c
//	c:      stands behind the call of a, too, which may return there
func blocksSpec() *build.Spec {
	spec := tabletest.Spec()
	spec.Blocks = blocksFrom(0, 4, 0, 0)
	return spec
}

// blocksFrom are those blocks where the first of each kind have these numbers.
func blocksFrom(function, counter, block, loop uint32) *build.Blocks {
	blocks := []layout.Block{
		{Address: 0x1139, Function: function, Counter: layout.NoCounter, After: layout.NoBlock, Instructions: 7, Size: 36, Flags: layout.BlockEntry, Loop: layout.NoLoop},
		{Address: 0x1160, Function: function + 1, Counter: layout.NoCounter, After: layout.NoBlock, Instructions: 2, Size: 5, Flags: layout.BlockEntry, Loop: loop},
		{Address: 0x1165, Function: function + 1, Counter: counter, After: layout.NoBlock, Instructions: 1, Size: 5, Loop: loop},
		{Address: 0x116a, Function: function + 1, Counter: layout.NoCounter, After: block + 1, Instructions: 1, Size: 2, Loop: layout.NoLoop},
	}
	ways := []layout.Way{
		{From: block + 1, To: block + 2, Counter: layout.NoCounter},
		{From: block + 1, To: block + 3, Counter: layout.NoCounter},
		{From: block + 2, To: block + 1, Counter: counter + 1, Flags: layout.WayBack},
		{From: block + 2, To: block + 3, Counter: layout.NoCounter},
		{From: block + 3, To: layout.NoBlock, Counter: layout.NoCounter},
		{From: layout.NoBlock, To: block + 1, Counter: layout.NoCounter, Flags: layout.WayCalls},
	}
	loops := []layout.Loop{{Header: block + 1, Parent: layout.NoLoop}}
	return &build.Blocks{Each: pointers(blocks), Ways: pointers(ways), Loops: pointers(loops), Counters: layout.BlockCounters{First: counter, Count: 2}}
}

// lateWithBlocks is an object that comes later to the table of a, with such blocks.
func lateWithBlocks(a *build.Appender) *build.Spec {
	spec := tabletest.Late(uint16(a.Objects.Count), a.Counters)
	spec.Blocks = blocksFrom(a.Functions.Count, a.Counters+2, a.Geometry.Blocks.Count, a.Geometry.Loops.Count)
	return spec
}

// addLate adds such an object.
func addLate(t testing.TB, path string) {
	t.Helper()
	a, err := build.OpenAppend(tabletest.Writable(t, path))
	if err == nil {
		err = a.Add(lateWithBlocks(a))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func pointers[T any](list []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

func runsOf(t *testing.T, path string) (runs []uint64) {
	t.Helper()
	tab, err := table.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	s, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	flow, err := tab.Flow(s)
	if err != nil {
		t.Fatal(err)
	}
	if flow == nil {
		return nil
	}
	blocks := flow.Blocks
	for i := range blocks {
		runs = append(runs, blocks[i].Runs)
		if blocks[i].Executed() != blocks[i].Runs*uint64(blocks[i].Instructions) {
			t.Errorf("block %d: %d executed", i, blocks[i].Executed())
		}
	}
	return runs
}

// TestBlocks: a block's runs are its counter's, of all rows, or follow from others and its
// function's calls, and are those of the block that it stands behind besides; they are no
// calls, and copies have them, too.
func TestBlocks(t *testing.T) {
	l := tabletest.Create(t, "blocks", blocksSpec())
	for row := range uint32(2) {
		l.Row(layout.Row{Index: row, State: layout.RowLive, Kind: layout.RowThread, Pid: 1, Tid: 1 + row})
		l.Set(row, 10, 20, 30, 40, 12, 7)
	}
	// Of 40 calls with 14 ways back to the entry 24 took the middle block, 10 went on from there.
	want := []uint64{20, 54, 24, 40 + 54}
	if got := runsOf(t, l.Path); !slices.Equal(got, want) {
		t.Errorf("%d, not %d", got, want)
	}
	tab, err := table.OpenMost(l.Path, 1) // not simple: all functions are there
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	s, err := tab.Snapshot()
	f, broken := tab.Flow(s)
	if broken != nil {
		t.Fatal(broken)
	}
	if l, w := f.Loops[0], f.Ways[3]; l.Iterations != 54 || l.Entries != 40 || l.Executed != 2*54+24 || l.Depth != 1 || l.Function != 1 || w.Taken != 10 {
		t.Errorf("%+v %+v", l, w)
	}
	if p := f.Of(1); len(p.Blocks) != 3 || len(p.Ways) != 6 || len(p.Loops) != 1 || p.FirstBlock != 1 {
		t.Errorf("%+v", p)
	}
	if err != nil || !tab.HasBlocks() || len(s.Calls) != len(tab.Functions) || s.Total() != 200 || s.Rows[0].Calls != 100 {
		t.Errorf("%d calls of %d functions, %v", s.Total(), len(s.Calls), err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := edit.Copy(l.Path, copied); err != nil {
		t.Fatal(err)
	}
	if got := runsOf(t, copied); !slices.Equal(got, want) {
		t.Errorf("of a copy: %d, not %d", got, want)
	}
	if err := edit.Reset(l.Path); err == nil {
		t.Error("they can be reset")
	}
	without := tabletest.Create(t, "without", tabletest.Spec())
	if got := runsOf(t, without.Path); got != nil {
		t.Errorf("%d where there are none", got)
	}
}

// notedSpec is blocksSpec, of which block 2 ends with a call by a pointer.
func notedSpec() *build.Spec {
	spec := blocksSpec()
	each := spec.Blocks.Each
	spec.Blocks.Each = func(yield func(*layout.Block) bool) {
		for b := range each {
			one := *b
			if one.Address == 0x1165 {
				one.Flags, one.Callee = one.Flags|layout.BlockNote, 6
			}
			if !yield(&one) {
				return
			}
		}
	}
	spec.Objects[0].Slots, spec.Objects[0].Sets = 8, 2
	spec.Blocks.Counters.Count += 2 + 2*layout.SetWords
	return spec
}

// TestCallees: those of a call by a pointer are those of all rows, whose first ones differ.
func TestCallees(t *testing.T) {
	l := tabletest.Create(t, "callees", notedSpec())
	const note, other = layout.RowCounters + 8*6, layout.RowCounters + 8*4
	for row, words := range [][]uint64{
		{0x5000, 9, 0, 0, 0, 0, 0x6000, note, 4, 0, 0x7000, other, 50},
		{0x6000, 3, 0x5000, note, 1, 0, 0x8000, note, 0, 0, 0, note, 7},
		{},
	} {
		l.Row(layout.Row{Index: uint32(row), State: layout.RowLive, Kind: layout.RowThread, Pid: 1, Tid: 1 + uint32(row)})
		l.Set(uint32(row), append([]uint64{10, 20, 30, 40, 12, 7}, words...)...)
	}
	tab, err := table.Open(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	f, err := tab.Flow(tabletest.Snapshot(t, tab))
	if err != nil {
		t.Fatal(err)
	}
	if want := []table.Callee{{Block: 2, Address: 0x5000, Calls: 10}, {Block: 2, Address: 0x6000, Calls: 7}}; !slices.Equal(f.Callees, want) || !slices.Equal(f.CalleesOf(2), want) || f.CalleesOf(1) != nil && len(f.CalleesOf(1)) > 0 {
		t.Errorf("%+v, not %+v", f.Callees, want)
	}
	seed, err := os.ReadFile(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func([]byte){
		"a note of a function":  func(b []byte) { b[int(l.Blocks.Offset)+2*layout.BkEntrySize+layout.BkCallee] = 3 },
		"a note behind all":     func(b []byte) { b[int(l.Blocks.Offset)+2*layout.BkEntrySize+layout.BkCallee] = 8 + 64 - 1 },
		"slots before blocks'":  func(b []byte) { b[int(l.Objects.Offset)+layout.ObjSlots] = 3 },
		"slots behind them":     func(b []byte) { b[int(l.Objects.Offset)+layout.ObjSlots] = 9 },
		"more slots than words": func(b []byte) { b[int(l.Objects.Offset)+layout.ObjSets+3] = 0x80 },
	} {
		b := bytes.Clone(seed)
		spoil(b)
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
		if err == nil {
			_, err = tab.Flow(tabletest.Snapshot(t, tab))
		}
		if !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostileBlocks: entries that cannot be are an error.
func TestHostileBlocks(t *testing.T) {
	l := tabletest.Create(t, "blocks", blocksSpec())
	seed, err := os.ReadFile(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	block := func(i, field int, value byte) func([]byte) {
		return func(b []byte) {
			at := int(l.Blocks.Offset) + i*layout.BkEntrySize + field
			copy(b[at:at+4], []byte{value, 0, 0, 0})
		}
	}
	way := func(i, field int, value byte) func([]byte) {
		return func(b []byte) {
			at := int(l.Ways.Offset) + i*layout.WyEntrySize + field
			copy(b[at:at+4], []byte{value, 0, 0, 0})
		}
	}
	loop := func(field int, value byte) func([]byte) {
		return func(b []byte) {
			at := int(l.Loops.Offset) + field
			copy(b[at:at+4], []byte{value, 0, 0, 0})
		}
	}
	for name, spoil := range map[string]func([]byte){
		"way from":          way(1, layout.WyFrom, 4),
		"way of another":    way(1, layout.WyFrom, 0),
		"way to":            way(1, layout.WyTo, 9),
		"way's counter":     way(1, layout.WyCounter, 2),
		"not said":          way(2, layout.WyCounter+3, 0xff),
		"no ways":           func(b []byte) { b[layout.HdrWays+layout.SecCount] = 0 },
		"loop's header":     loop(layout.LpHeader, 4),
		"loop in itself":    loop(layout.LpParent, 0),
		"block's loop":      block(2, layout.BkLoop, 1),
		"function":          block(3, layout.BkFunction, 99),
		"order":             block(0, layout.BkFunction, 5),
		"counter":           block(2, layout.BkCounter, 8),
		"counter of calls":  block(2, layout.BkCounter, 1),
		"behind itself":     block(3, layout.BkAfter, 3),
		"no instructions":   block(1, layout.BkInstructions, 0),
		"counters":          func(b []byte) { b[layout.HdrBlocksCount] = 200 },
		"counters, entries": func(b []byte) { b[layout.HdrBlocks+layout.SecCount] = 3 },
	} {
		b := bytes.Clone(seed)
		spoil(b)
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
		if err == nil {
			var s *table.Snapshot
			if s, err = tab.Snapshot(); err == nil {
				_, err = tab.Flow(s)
			}
		}
		if !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
