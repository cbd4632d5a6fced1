package table_test

import (
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestProgress: blocks are told when they have run more often, and how many instructions all
// have run is what the flow says, those of what came later included.
func TestProgress(t *testing.T) {
	live := spareBlocks(t)
	live.Row(layout.Row{Index: 0, State: layout.RowLive, Kind: layout.RowThread, Pid: 1, Tid: 1})
	live.Set(0, 0, 0, 0, 0, 0, 0)
	var p *table.Progress
	next := func() (ran []uint32) {
		t.Helper()
		if p == nil || p.Grown() {
			fresh, err := tabletest.Open(t, live.Path).Progress()
			if err != nil {
				t.Fatal(err)
			}
			if p != nil {
				fresh.GoOn(p)
			}
			p = fresh
		}
		if err := p.Next(func(b *table.Block) { ran = append(ran, b.Counter) }); err != nil {
			t.Fatal(err)
		}
		tab := tabletest.Open(t, live.Path)
		f, err := tab.Flow(tabletest.Snapshot(t, tab))
		if err != nil {
			t.Fatal(err)
		}
		want := uint64(0)
		for i := range f.Blocks {
			want += f.Blocks[i].Executed()
		}
		if p.Executed != want {
			t.Errorf("%d instructions, not %d", p.Executed, want)
		}
		return ran
	}
	for _, step := range []struct {
		counters []uint64
		blocks   int // that have run more often
	}{
		{[]uint64{0, 0, 0, 0, 0, 0}, 0},
		{[]uint64{10, 20, 30, 40, 12, 7}, 4},
		{[]uint64{10, 20, 30, 40, 12, 7}, 0},
		{[]uint64{10, 21, 30, 40, 12, 7}, 2},
	} {
		live.Set(0, step.counters...)
		if ran := next(); len(ran) != step.blocks {
			t.Errorf("%v: %d", step.counters, ran)
		}
	}
	addLate(t, live.Path)
	live.Set(0, 10, 21, 30, 40, 12, 7, 100, 200, 120, 70)
	if ran := next(); len(ran) != 4 {
		t.Errorf("later: %d", ran)
	}
	if ran := next(); len(ran) != 0 || !slices.Equal(runsOf(t, live.Path)[4:], []uint64{100, 270, 120, 470}) {
		t.Errorf("again: %d", ran)
	}
}
