package table_test

import (
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestByRow: the calls of a function are those of its rows, each of the thread that has it
// if nobody had it before.
func TestByRow(t *testing.T) {
	live := tabletest.Create(t, "a", tabletest.Spec())
	for row := range 3 {
		live.Row(layout.Row{Index: uint32(row), State: layout.RowLive, Kind: layout.RowThread, Pid: 7, Tid: 8 + uint32(row)})
		live.Set(uint32(row), 1, []uint64{10, 20 | layout.CounterFired, 0}[row])
	}
	tab := tabletest.Open(t, live.Path)
	rows := tab.Geometry.Rows
	live.Write(int64(rows.Offset)+int64(rows.EntrySize)+layout.RowBase, []byte{5}) // the second had another owner
	s := tabletest.Snapshot(t, tab)
	got, err := tab.ByRow(s, 1)
	if want := []table.RowCalls{{Pid: 7, Tid: 8, Calls: 10}, {Pid: 7, Tid: 9, Several: true, Calls: 20}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	const tiny = 3 // is not counted
	if got, err := tab.ByRow(s, tiny); err != nil || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
}
