package table_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func TestRoundTrip(t *testing.T) {
	for _, noSpare := range []bool{true, false} {
		spec := tabletest.Spec()
		spec.NoSpare = noSpare
		tab := tabletest.Open(t, tabletest.Create(t, "a.dynprof", spec).Path)
		if !reflect.DeepEqual(tab.Objects, spec.Objects) {
			t.Errorf("objects:\n got %+v\nwant %+v", tab.Objects, spec.Objects)
		}
		if !reflect.DeepEqual(tab.Functions, spec.Functions) {
			t.Errorf("functions:\n got %+v\nwant %+v", tab.Functions, spec.Functions)
		}
		got := tab.Header
		if !got.Realtime.Equal(spec.Realtime) || got.Nonce == [16]byte{} {
			t.Errorf("time %v, nonce %x", got.Realtime, got.Nonce)
		}
		got.Realtime, got.Nonce = spec.Realtime, [16]byte{}
		want := layout.Header{
			Identity: spec.Identity, RunID: spec.RunID, State: layout.StateLive, Flags: spec.Flags,
			Threshold: spec.Threshold, Program: spec.Program, Creator: spec.Creator,
		}
		if got != want {
			t.Errorf("header:\n got %+v\nwant %+v", got, want)
		}
	}
}

func TestManyFunctionsRoundTrip(t *testing.T) {
	spec := tabletest.Synthetic(40000)
	spec.Functions[7].Aliases = []string{"x", "", "y"}
	spec.Functions[39999].Name = strings.Repeat("n", layout.MaxString+5)
	tab := tabletest.Open(t, tabletest.Create(t, "a.dynprof", spec).Path)
	spec.Functions[7].Aliases = []string{"x", "y"} // the empty name is no alias
	spec.Functions[39999].Name = spec.Functions[39999].Name[:layout.MaxString]
	if !reflect.DeepEqual(tab.Functions, spec.Functions) {
		t.Error("functions differ")
	}
}

func TestSnapshot(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	live.Row(layout.Row{Index: 2}) // claimed, nobody in it yet
	live.Word(layout.HdrThreadsDiscarded, 3)
	s := tabletest.Snapshot(t, tabletest.Open(t, live.Path))
	if want := []uint64{700, 1500, 3, 0, 0, 20, 0}; !reflect.DeepEqual(s.Calls, want) {
		t.Errorf("calls %v, want %v", s.Calls, want)
	}
	if s.Total() != 2223 || s.Threads() != 1 || len(s.Rows) != 2 || s.ThreadsDiscarded != 3 {
		t.Errorf("total %d, threads %d, rows %v, discarded %d", s.Total(), s.Threads(), s.Rows, s.ThreadsDiscarded)
	}
	for i := range s.Calls {
		if got, want := s.Hot(i), i == 1; got != want {
			t.Errorf("hot %d: %v", i, got)
		}
	}
}

// A row's counters lie on many pages, most of them holes.
func TestSnapshotOfSparseRows(t *testing.T) {
	const n = 5000
	live := tabletest.Create(t, "a.dynprof", tabletest.Synthetic(n))
	last := live.Geometry.Rows.Capacity - 1
	live.Row(layout.Row{Index: 0, State: layout.RowLive})
	live.Row(layout.Row{Index: last, State: layout.RowFree})
	want := make([]uint64, n)
	for _, row := range []uint32{0, 40, last} {
		for c := 0; c < n; c += 611 {
			at := int64(live.Rows.Offset) + int64(row)*int64(live.Rows.EntrySize) + layout.RowCounters + 8*int64(c)
			live.Write(at, []byte{byte(c), 1, 0, 0, 0, 0, 0, 0x80})
			want[c] += uint64(byte(c)) + 256
		}
	}
	if got := tabletest.Snapshot(t, tabletest.Open(t, live.Path)).Calls; !reflect.DeepEqual(got, want) {
		t.Error("counts differ")
	}
}

func TestEvents(t *testing.T) {
	spec := tabletest.Spec()
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	live.Fire(2, 99, 1, 7, 1001, 3e9)                                     // slot 1 is claimed, not written yet
	live.Fire(3, 3, 1, 7, 1002|layout.CounterFired, 2500e6)               // written late
	live.Word(int64(live.Events.Offset)+4*layout.EvEntrySize+4, 0xffffff) // not claimed
	live.Write(layout.HdrEventsHead, []byte{4, 0, 0, 0, 0, 0, 0, 0})
	got, err := tabletest.Open(t, live.Path).Events()
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) time.Time { return time.Unix(1700000000, 0).Add(d) }
	want := []table.Event{
		{Time: at(time.Second), Calls: 1000, Function: 1, Pid: 4242, Tid: 4242},
		{Time: at(1500 * time.Millisecond), Calls: 1002, Function: 5, Row: 1, Pid: 7, Tid: 7},
		{Time: at(2 * time.Second), Calls: 1001, Function: -1, Row: 1, Pid: 7, Tid: 7},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d events: %+v", len(got), got)
	}
	for i := range want {
		if !got[i].Time.Equal(want[i].Time) {
			t.Errorf("event %d at %v, want %v", i, got[i].Time, want[i].Time)
		}
		got[i].Time, got[i].Slot = want[i].Time, want[i].Slot
		if got[i] != want[i] {
			t.Errorf("event %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestUnusableTables(t *testing.T) {
	edit := func(change func(b []byte) []byte) func(t *testing.T) string {
		return func(t *testing.T) string {
			path := tabletest.Create(t, "a.dynprof", tabletest.Spec()).Path
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(b), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	for name, row := range map[string]struct {
		make func(t *testing.T) string
		want error
	}{
		"foreign":         {edit(func(b []byte) []byte { return []byte("\x7fELF and so on") }), layout.ErrNotTable},
		"empty":           {edit(func(b []byte) []byte { return nil }), layout.ErrNotTable},
		"newer":           {edit(func(b []byte) []byte { b[layout.HdrVersion] = layout.VersionLateSites + 1; return b }), layout.ErrVersion},
		"building":        {edit(func(b []byte) []byte { b[layout.HdrState] = layout.StateBuilding; return b }), layout.ErrBuilding},
		"no header yet":   {edit(func(b []byte) []byte { clear(b[:layout.HeaderSize]); return b }), layout.ErrBuilding},
		"half the header": {edit(func(b []byte) []byte { return b[:2000] }), layout.ErrTruncated},
		"half the file":   {edit(func(b []byte) []byte { return b[:len(b)/2] }), layout.ErrTruncated},
		"one byte short":  {edit(func(b []byte) []byte { return b[:len(b)-1] }), layout.ErrTruncated},
		"section outside": {edit(func(b []byte) []byte { b[layout.HdrFunctions+layout.SecOffset+7] = 0xff; return b }), layout.ErrCorrupt},
		"a directory":     {func(t *testing.T) string { return t.TempDir() }, layout.ErrNotTable},
		"missing":         {func(t *testing.T) string { return filepath.Join(t.TempDir(), "no") }, os.ErrNotExist},
		"a fifo": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, layout.ErrNotTable},
	} {
		t.Run(name, func(t *testing.T) {
			tab, err := table.Open(row.make(t))
			if !errors.Is(err, row.want) || tab != nil {
				t.Errorf("got %v, want %v", err, row.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

// TestOutcomes: each has its word, which reports show.
func TestOutcomes(t *testing.T) {
	seen := map[string]bool{}
	for o := table.Outcome(layout.OutcomeNone); o <= layout.OutcomeRefused; o++ {
		if w := o.String(); w == "" || w == "?" || seen[w] {
			t.Errorf("outcome %d is %q", o, w)
		}
		seen[o.String()] = true
	}
	if w := table.Outcome(layout.OutcomeRefused + 1).String(); w != "?" {
		t.Errorf("one that is not known is %q", w)
	}
}
