package table_test

import (
	"bytes"
	"errors"
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

// blocksSpec is a program of which two functions' blocks are counted: the second one has
// jumps to its own entry, and a block that stands behind a call.
func blocksSpec() *build.Spec {
	spec := tabletest.Spec()
	blocks := []layout.Block{
		{Address: 0x1139, Function: 0, Counter: layout.NoCounter, After: layout.NoBlock, Instructions: 7, Size: 36, Flags: layout.BlockEntry},
		{Address: 0x1160, Function: 1, Counter: 4, After: layout.NoBlock, Instructions: 2, Size: 5, Flags: layout.BlockEntry},
		{Address: 0x1165, Function: 1, Counter: 5, After: layout.NoBlock, Instructions: 1, Size: 5},
		{Address: 0x116a, Function: 1, Counter: 6, After: 2, Instructions: 1, Size: 2},
	}
	spec.Blocks = func(yield func(*layout.Block) bool) {
		for i := range blocks {
			if !yield(&blocks[i]) {
				return
			}
		}
	}
	spec.BlockCounters = layout.BlockCounters{First: 4, Count: 4}
	return spec
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
	blocks, err := tab.Blocks(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range blocks {
		runs = append(runs, blocks[i].Runs)
		if blocks[i].Executed() != blocks[i].Runs*uint64(blocks[i].Instructions) {
			t.Errorf("block %d: %d executed", i, blocks[i].Executed())
		}
	}
	return runs
}

// TestBlocks: a block's runs are its counter's, of all rows, its function's calls and those
// of the block that it stands behind; they are no calls, and copies have them, too.
func TestBlocks(t *testing.T) {
	l := tabletest.Create(t, "blocks", blocksSpec())
	for row := range uint32(2) {
		l.Row(layout.Row{Index: row, State: layout.RowLive, Kind: layout.RowThread, Pid: 1, Tid: 1 + row})
		l.Set(row, 10, 20, 30, 40, 1, 2, 3, 0)
	}
	want := []uint64{20, 42, 4, 10}
	if got := runsOf(t, l.Path); !slices.Equal(got, want) {
		t.Errorf("%d, not %d", got, want)
	}
	tab, err := table.OpenMost(l.Path, 1) // not simple: all functions are there
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	s, err := tab.Snapshot()
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
	for name, spoil := range map[string]func([]byte){
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
				_, err = tab.Blocks(s)
			}
		}
		if !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
