package table_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func sinceReset(t testing.TB, tab *table.Table) *table.Snapshot {
	t.Helper()
	s, err := tab.SinceReset()
	if err != nil {
		t.Fatal(err)
	}
	var owners uint64
	for _, o := range s.Owners() {
		owners += o.Calls
	}
	if owners != s.Total() {
		t.Errorf("the owners have %d calls, the functions %d", owners, s.Total())
	}
	return s
}

func reset(t testing.TB, path string) {
	t.Helper()
	if err := table.Reset(path); err != nil {
		t.Fatal(err)
	}
}

func TestReset(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	before := open(t, live.Path)
	for round := range uint64(6) { // more than there is room for baselines
		reset(t, live.Path)
		for _, tab := range []*table.Table{before, open(t, live.Path)} {
			s := sinceReset(t, tab)
			if want := []uint64{0, 0, 0, 0, 0, 0, 0}; !reflect.DeepEqual(s.Calls, want) || s.Reset.IsZero() {
				t.Errorf("after reset %d: %v, %v", round, s.Calls, s.Reset)
			}
		}
		live.Row(table.Row{Index: uint32(round % 4), State: table.RowLive})
		live.Set(uint32(round%4), 700+5*round, 1000|table.CounterFired, 3, 20)
		sinceReset(t, before)
	}
	if s := snapshot(t, before); s.Calls[0] < 700 || !s.Reset.IsZero() {
		t.Errorf("the counts as such: %v", s.Calls)
	}
}

// A function that is added after a reset counts from 0.
func TestResetThenAppend(t *testing.T) {
	spec := tabletest.Spec()
	spec.NoSpare = false
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	reset(t, live.Path)
	a, err := table.OpenAppend(writable(t, live.Path))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(late(uint16(a.Objects.Count), a.Counters)); err != nil {
		t.Fatal(err)
	}
	live.Set(0, 701, 1000|table.CounterFired, 3, 0, 9, 8)
	tab := open(t, live.Path)
	if want := []uint64{1, 0, 0, 0, 0, 0, 0, 9, 8}; !reflect.DeepEqual(sinceReset(t, tab).Calls, want) {
		t.Errorf("%v, want %v", sinceReset(t, tab).Calls, want)
	}
	reset(t, live.Path)
	if n := sinceReset(t, tab).Total(); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// TestResetWhileRead: no reader sees half a baseline. Every counter has the same
// value, so that all differences are the same.
func TestResetWhileRead(t *testing.T) {
	const n = 3000
	live := tabletest.Create(t, "a.dynprof", tabletest.Synthetic(n))
	live.Row(table.Row{Index: 0, State: table.RowLive})
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
	tab := open(t, live.Path)
	last := uint64(0)
	for round := range uint64(150) {
		for i := range counts {
			counts[i] = 1000 * (round + 1)
		}
		live.Set(0, counts...)
		s := sinceReset(t, tab)
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
	live.Word(table.HdrBaselinesTaken, 0b0101)
	reset(t, live.Path)
	reset(t, live.Path)
	live.Word(table.HdrBaselinesTaken, 0b1111)
	if err := table.Reset(live.Path); err == nil {
		t.Error("no baseline was free")
	}
	live.Write(table.HdrBaselines, make([]byte, table.SectionSize)) // as an older version leaves it
	if err := table.Reset(live.Path); !errors.Is(err, table.ErrNoReset) {
		t.Errorf("a table of an older version: %v", err)
	}
	if s := sinceReset(t, open(t, live.Path)); s.Total() != 2223 {
		t.Errorf("%d calls", s.Total())
	}
}

// TestOwners: rows whose owners changed, with notes that are missing, damaged or
// being written.
func TestOwners(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	le := binary.LittleEndian
	notes := 0
	note := func(row, tid uint32, from, to uint64) {
		b := make([]byte, table.FmEntrySize)
		le.PutUint64(b[table.FmFrom:], from)
		le.PutUint64(b[table.FmTo:], to)
		le.PutUint32(b[table.FmRow:], row)
		le.PutUint32(b[table.FmPid:], 4242)
		le.PutUint32(b[table.FmTid:], tid)
		le.PutUint32(b[table.FmIncarnation:], 1)
		live.Write(int64(live.Formers.Offset)+int64(notes)*table.FmEntrySize, b)
		notes++
		live.Write(table.HdrFormersHead, le.AppendUint64(nil, uint64(notes)))
	}
	base := func(row, base uint64) {
		live.Write(int64(live.Rows.Offset+row*uint64(live.Rows.EntrySize))+table.RowBase, le.AppendUint64(nil, base))
	}
	want := func(want string) {
		t.Helper()
		got := ""
		for _, o := range sinceReset(t, open(t, live.Path)).Owners() {
			got += fmt.Sprintf("%d:%d ", o.Tid, o.Calls)
		}
		if got != want {
			t.Errorf("owners %q, want %q", got, want)
		}
	}
	want("4242:1703 4243:520 ")
	base(1, 300)
	note(2, 7, 0, 100) // row 1, as noted
	note(2, 8, 250, 300)
	want("4242:1703 7:100 8:50 4243:220 0:150 ")
	note(0, 9, 100, 200) // being written
	want("4242:1703 7:100 8:50 4243:220 0:150 ")
	reset(t, live.Path)
	want("")
	live.Set(1, 0, 500, 10, 30)
	want("4243:20 ")
	base(1, 535)
	note(2, 10, 300, 535)
	want("10:15 4243:5 ")
	note(2, 11, 100, 1<<63) // nonsense: the sum is right all the same
	note(1, 12, 1<<63, 5)
	want("11:15 4243:5 ")
	base(1, table.ManyOwners)
	want("11:20 ")
}

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	spec := tabletest.Synthetic(3000)
	live := tabletest.CreateAt(t, filepath.Join(dir, "a.dynprof"), spec)
	live.Row(table.Row{Index: 0, State: table.RowLive})
	live.Row(table.Row{Index: 5, State: table.RowLive})
	live.Set(0, 1, 2, 3)
	live.Set(5, 10, 20, 30)
	reset(t, live.Path)
	live.Set(0, 2, 4, 6)
	to := filepath.Join(dir, "copy.dynprof")
	for range 2 { // the second time it is there
		if err := table.Copy(live.Path, to); err != nil {
			t.Fatal(err)
		}
	}
	original, copied := open(t, live.Path), open(t, to)
	a, b := sinceReset(t, original), sinceReset(t, copied)
	if !reflect.DeepEqual(a.Calls, b.Calls) || b.Total() != 6 || !reflect.DeepEqual(original.Functions, copied.Functions) {
		t.Errorf("%d calls in the copy, %d in the original", b.Total(), a.Total())
	}
	if copied.Status() != table.Copied || copied.Header.Snapshot.IsZero() {
		t.Errorf("status %v, copied at %v", copied.Status(), copied.Header.Snapshot)
	}
	reset(t, to) // a table like any other
	if n := sinceReset(t, copied).Total(); n != 0 {
		t.Errorf("%d calls", n)
	}
	e, err := table.Stat(to)
	if err != nil {
		t.Fatal(err)
	}
	if fi, _ := os.Stat(to); e.Blocks > 2<<20 || fi.Mode().Perm() != 0o600 {
		t.Errorf("takes %d bytes, mode %v", e.Blocks, fi.Mode())
	}
	if err := table.Copy(filepath.Join(dir, "missing"), to); err == nil {
		t.Error("copied what is not there")
	}
	if err := table.Copy(live.Path, filepath.Join(dir, "no", "where")); err == nil {
		t.Error("copied to where there is no directory")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".dynprof-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
