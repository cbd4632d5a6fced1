package table_test

import (
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func meter(t testing.TB, path string) *table.Meter {
	t.Helper()
	m, err := table.OpenMeter(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// agree fails unless a meter says what the table and its snapshot say.
func agree(t *testing.T, m *table.Meter, r *table.Reading, path string) {
	t.Helper()
	tab := tabletest.Open(t, path)
	s := tabletest.Snapshot(t, tab)
	if err := m.Read(r); err != nil {
		t.Fatal(err)
	}
	if r.Total != s.Total() || r.Threads != s.Threads() || m.Ledger.Functions != len(tab.Functions) {
		t.Errorf("total %d, threads %d, functions %d; the snapshot has %d, %d, %d",
			r.Total, r.Threads, m.Ledger.Functions, s.Total(), s.Threads(), len(tab.Functions))
	}
	var names []table.Named // in the order of functions
	counted := 0
	if err := m.Names(nil, func(n table.Named) bool { names = append(names, n); return true }); err != nil {
		t.Fatal(err)
	}
	for i := range tab.Functions {
		f := &tab.Functions[i]
		if f.Counter == layout.NoCounter {
			continue
		}
		if counted == len(names) {
			t.Fatalf("%d names", len(names))
		}
		name := names[counted]
		counted++
		want := table.Named{Counter: name.Counter, Address: f.Address, Name: f.Name, Object: tab.Objects[f.Object].Path}
		if name != want || r.Calls[name.Counter] != s.Calls[i] {
			t.Errorf("%+v with %d calls; the table has %+v with %d", name, r.Calls[name.Counter], want, s.Calls[i])
		}
	}
	if m.Counted != counted {
		t.Errorf("%d counted, not %d", m.Counted, counted)
	}
}

func TestMeter(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	m, r := meter(t, live.Path), &table.Reading{}
	agree(t, m, r, live.Path)
	if m.Program != "/opt/demo/demo" || m.Skipped[ledger.ReasonTooShort] != 1 || m.Skipped[ledger.ReasonStart] != 0 || r.Events != 1 {
		t.Errorf("program %q, skipped %v, %d events", m.Program, m.Skipped, r.Events)
	}
	// The same Reading serves a table with many pages a row, some of them holes.
	big := tabletest.Create(t, "b.dynprof", tabletest.Synthetic(5000))
	for row := range uint32(3) {
		big.Row(layout.Row{Index: row, State: layout.RowLive, Pid: 1, Tid: row + 1})
	}
	big.Set(0, 1, 2, 3)
	counts := make([]uint64, 4900)
	counts[4899], counts[600] = 77, 5|layout.CounterFired
	big.Set(2, counts...)
	agree(t, meter(t, big.Path), r, big.Path)
	agree(t, m, r, live.Path)
}

// What the program loads later is there at the next reading.
func TestMeterFollowsGenerations(t *testing.T) {
	spec := tabletest.Spec()
	spec.NoSpare = false
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	m, r := meter(t, live.Path), &table.Reading{}
	agree(t, m, r, live.Path)
	a, err := build.OpenAppend(tabletest.Writable(t, live.Path))
	if err != nil {
		t.Fatal(err)
	}
	more := &build.Spec{
		Objects:   []layout.Object{{Path: "/usr/lib/later.so", Flags: layout.ObjLate | layout.ObjSelected}},
		Functions: []layout.Function{{Object: 3, Address: 0x99, Size: 9, Name: "later", Counter: 4, Source: ledger.SourceDynsym, Tactic: ledger.TacticJump}},
	}
	if err := a.Add(more); err != nil {
		t.Fatal(err)
	}
	live.Set(0, 700, 1000, 3, 0, 42)
	agree(t, m, r, live.Path)
	if r.Calls[4] != 42 {
		t.Errorf("calls %v", r.Calls)
	}
}

// TestMeterBlocks: counters of blocks are no calls, and those behind them are of functions
// that came later.
func TestMeterBlocks(t *testing.T) {
	spec := blocksSpec()
	spec.NoSpare = false
	live := tabletest.Create(t, "blocks", spec)
	live.Row(layout.Row{State: layout.RowLive, Pid: 1, Tid: 1})
	a, err := build.OpenAppend(tabletest.Writable(t, live.Path))
	if err == nil {
		err = a.Add(tabletest.Late(3, 6))
	}
	if err != nil {
		t.Fatal(err)
	}
	live.Set(0, 10, 20, 30, 40, 12, 7, 100, 1000) // two of blocks are among them
	m, r := meter(t, live.Path), &table.Reading{}
	if err := m.Read(r); err != nil {
		t.Fatal(err)
	}
	calls := map[uint64]uint64{}
	m.Names(nil, func(n table.Named) bool { calls[n.Address] = r.Calls[n.Counter]; return true })
	tab := tabletest.Open(t, live.Path)
	s := tabletest.Snapshot(t, tab)
	for i, f := range tab.Functions {
		if f.Counter != layout.NoCounter && calls[f.Address] != s.Calls[i] {
			t.Errorf("%#x: %d calls, not %d", f.Address, calls[f.Address], s.Calls[i])
		}
	}
	if r.Total != 1200 || s.Total() != 1200 {
		t.Errorf("%d and %d calls", r.Total, s.Total())
	}
}
