package edit_test

import (
	"errors"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func reset(t testing.TB, path string) {
	t.Helper()
	if err := edit.Reset(path); err != nil {
		t.Fatal(err)
	}
}

func TestReset(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	before := tabletest.Open(t, live.Path)
	for round := range uint64(6) { // more than there is room for baselines
		reset(t, live.Path)
		for _, tab := range []*table.Table{before, tabletest.Open(t, live.Path)} {
			s := tabletest.SinceReset(t, tab)
			if want := []uint64{0, 0, 0, 0, 0, 0, 0}; !reflect.DeepEqual(s.Calls, want) || s.Reset.IsZero() {
				t.Errorf("after reset %d: %v, %v", round, s.Calls, s.Reset)
			}
		}
		live.Row(layout.Row{Index: uint32(round % 4), State: layout.RowLive})
		live.Set(uint32(round%4), 700+5*round, 1000|layout.CounterFired, 3, 20)
		tabletest.SinceReset(t, before)
	}
	if s := tabletest.Snapshot(t, before); s.Calls[0] < 700 || !s.Reset.IsZero() {
		t.Errorf("the counts as such: %v", s.Calls)
	}
}

// A function that is added after a reset counts from 0.
func TestResetThenAppend(t *testing.T) {
	spec := tabletest.Spec()
	spec.NoSpare = false
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	reset(t, live.Path)
	a, err := build.OpenAppend(tabletest.Writable(t, live.Path))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(tabletest.Late(uint16(a.Objects.Count), a.Counters)); err != nil {
		t.Fatal(err)
	}
	live.Set(0, 701, 1000|layout.CounterFired, 3, 0, 9, 8)
	tab := tabletest.Open(t, live.Path)
	if want := []uint64{1, 0, 0, 0, 0, 0, 0, 9, 8}; !reflect.DeepEqual(tabletest.SinceReset(t, tab).Calls, want) {
		t.Errorf("%v, want %v", tabletest.SinceReset(t, tab).Calls, want)
	}
	reset(t, live.Path)
	if n := tabletest.SinceReset(t, tab).Total(); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// TestResetWhileRead: no reader sees half a baseline. Every counter has the same
// value, so that all differences are the same.
func TestResetWhileRead(t *testing.T) {
	const n = 3000
	live := tabletest.Create(t, "a.dynprof", tabletest.Synthetic(n))
	live.Row(layout.Row{Index: 0, State: layout.RowLive})
	counts := make([]uint64, n)
	var writers sync.WaitGroup
	stop := make(chan bool)
	for range 2 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					reset(t, live.Path)
				}
			}
		})
	}
	tab := tabletest.Open(t, live.Path)
	last := uint64(0)
	for round := range uint64(150) {
		for i := range counts {
			counts[i] = 1000 * (round + 1)
		}
		live.Set(0, counts...)
		s := tabletest.SinceReset(t, tab)
		for i, c := range s.Calls {
			if c%1000 != 0 || c > counts[i] {
				t.Fatalf("round %d: counter %d is %d", round, i, c)
			}
		}
		last = max(last, s.Total())
	}
	close(stop)
	writers.Wait()
	if last == 0 {
		t.Error("nothing was ever counted between two resets: this is no test")
	}
}

// TestResetRefuses: whoever dies at a reset keeps its baseline; all four gone,
// there is an error.
func TestResetRefuses(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	live.Word(layout.HdrBaselinesTaken, 0b0101)
	reset(t, live.Path)
	reset(t, live.Path)
	live.Word(layout.HdrBaselinesTaken, 0b1111)
	if err := edit.Reset(live.Path); err == nil {
		t.Error("no baseline was free")
	}
	live.Write(layout.HdrBaselines, make([]byte, layout.SectionSize)) // as an older version leaves it
	if err := edit.Reset(live.Path); !errors.Is(err, edit.ErrNoReset) {
		t.Errorf("a table of an older version: %v", err)
	}
	if s := tabletest.SinceReset(t, tabletest.Open(t, live.Path)); s.Total() != 2223 {
		t.Errorf("%d calls", s.Total())
	}
}
