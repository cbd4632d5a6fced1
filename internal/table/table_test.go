package table_test

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func open(t testing.TB, path string) *table.Table {
	t.Helper()
	tab, err := table.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tab.Close() })
	return tab
}

func snapshot(t testing.TB, tab *table.Table) *table.Snapshot {
	t.Helper()
	s, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRoundTrip(t *testing.T) {
	for _, noSpare := range []bool{true, false} {
		spec := tabletest.Spec()
		spec.NoSpare = noSpare
		tab := open(t, tabletest.Create(t, "a.dynprof", spec).Path)
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
		want := table.Header{
			Identity: spec.Identity, RunID: spec.RunID, State: table.StateLive, Flags: spec.Flags,
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
	spec.Functions[39999].Name = strings.Repeat("n", table.MaxString+5)
	tab := open(t, tabletest.Create(t, "a.dynprof", spec).Path)
	spec.Functions[7].Aliases = []string{"x", "y"} // the empty name is no alias
	spec.Functions[39999].Name = spec.Functions[39999].Name[:table.MaxString]
	if !reflect.DeepEqual(tab.Functions, spec.Functions) {
		t.Error("functions differ")
	}
}

func TestSnapshot(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	live.Row(table.Row{Index: 2}) // claimed, nobody in it yet
	live.Word(table.HdrThreadsDiscarded, 3)
	s := snapshot(t, open(t, live.Path))
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
	live.Row(table.Row{Index: 0, State: table.RowLive})
	live.Row(table.Row{Index: last, State: table.RowFree})
	want := make([]uint64, n)
	for _, row := range []uint32{0, 40, last} {
		for c := 0; c < n; c += 611 {
			at := int64(live.Rows.Offset) + int64(row)*int64(live.Rows.EntrySize) + table.RowCounters + 8*int64(c)
			live.Write(at, []byte{byte(c), 1, 0, 0, 0, 0, 0, 0x80})
			want[c] += uint64(byte(c)) + 256
		}
	}
	if got := snapshot(t, open(t, live.Path)).Calls; !reflect.DeepEqual(got, want) {
		t.Error("counts differ")
	}
}

func TestEvents(t *testing.T) {
	spec := tabletest.Spec()
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	live.Fire(2, 99, 1, 7, 1001, 3e9)                                    // slot 1 is claimed, not written yet
	live.Fire(3, 3, 1, 7, 1002|table.CounterFired, 2500e6)               // written late
	live.Word(int64(live.Events.Offset)+4*table.EvEntrySize+4, 0xffffff) // not claimed
	live.Write(table.HdrEventsHead, []byte{4, 0, 0, 0, 0, 0, 0, 0})
	got, err := open(t, live.Path).Events()
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

func TestRoomIsReserved(t *testing.T) {
	spec := tabletest.Synthetic(3000)
	spec.Flags = table.FlagThreshold
	live := tabletest.Create(t, "a.dynprof", spec)
	f, err := os.Open(live.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	st := fi.Sys().(*syscall.Stat_t)
	least := int64(2*(table.RowCounters+8*3000) + 4*3000 + table.EvEntrySize*3256 + 3000*table.FnEntrySize)
	if got := st.Blocks * 512; got < least || got > least+1<<20 {
		t.Errorf("%d bytes on disk for %d reserved, apparent size %d", got, least, st.Size)
	}
	if st.Size > table.MaxFileSize || st.Mode&0o777 != 0o600 {
		t.Errorf("apparent size %d, mode %o", st.Size, st.Mode)
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{"x.dynprof", "x.2.dynprof", "x.3.dynprof"} {
		f, err := table.Create(filepath.Join(dir, "x.dynprof"), tabletest.Spec())
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got := filepath.Base(f.Path()); got != want {
			t.Errorf("created %s, want %s", got, want)
		}
	}
	target := filepath.Join(dir, "target")
	if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	f, err := table.Create(filepath.Join(dir, "link"), tabletest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := os.Lstat(target); !os.IsNotExist(err) || filepath.Base(f.Path()) != "link.2" {
		t.Errorf("a symbolic link was followed: %v, %s", err, f.Path())
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
		"foreign":         {edit(func(b []byte) []byte { return []byte("\x7fELF and so on") }), table.ErrNotTable},
		"empty":           {edit(func(b []byte) []byte { return nil }), table.ErrNotTable},
		"newer":           {edit(func(b []byte) []byte { b[table.HdrVersion] = table.VersionReset + 1; return b }), table.ErrVersion},
		"building":        {edit(func(b []byte) []byte { b[table.HdrState] = table.StateBuilding; return b }), table.ErrBuilding},
		"no header yet":   {edit(func(b []byte) []byte { clear(b[:table.HeaderSize]); return b }), table.ErrBuilding},
		"half the header": {edit(func(b []byte) []byte { return b[:2000] }), table.ErrTruncated},
		"half the file":   {edit(func(b []byte) []byte { return b[:len(b)/2] }), table.ErrTruncated},
		"one byte short":  {edit(func(b []byte) []byte { return b[:len(b)-1] }), table.ErrTruncated},
		"section outside": {edit(func(b []byte) []byte { b[table.HdrFunctions+table.SecOffset+7] = 0xff; return b }), table.ErrCorrupt},
		"a directory":     {func(t *testing.T) string { return t.TempDir() }, table.ErrNotTable},
		"missing":         {func(t *testing.T) string { return filepath.Join(t.TempDir(), "no") }, os.ErrNotExist},
		"a fifo": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, table.ErrNotTable},
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

func TestMarkEnded(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Synthetic(100))
	end := table.Ended{Kind: table.EndedExit, Time: time.Unix(1700000099, 5)}
	if err := table.MarkEnded(live.Path, end); err != nil {
		t.Fatal(err)
	}
	if tab := open(t, live.Path); tab.Ended != end {
		t.Errorf("ended %+v, want %+v", tab.Ended, end)
	}
}

// A mapping alone, without a descriptor, keeps the file as it is. A compact one
// holds the same, with resets before and after.
func TestCompact(t *testing.T) {
	for _, spec := range []*table.Spec{tabletest.Spec(), tabletest.Synthetic(100), tabletest.Synthetic(20000)} {
		live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
		reset(t, live.Path)
		reset(t, live.Path) // the baseline is not the first
		missed := make([]byte, table.MsEntrySize)
		missed[table.MsReason], missed[table.MsTimes] = byte(ledger.ReasonNoMemory), 3
		copy(missed[table.MsPath:], "/lib/x.so")
		live.Write(int64(live.Missed.Offset), missed)
		live.Word(table.HdrMissedHead, 1)
		live.Set(1, 5000, 6000, 7000)
		mapping := mapShared(t, live.Path)
		live.Close()
		if err := table.Compact(live.Path); !errors.Is(err, table.ErrInUse) {
			t.Errorf("while it is mapped: %v", err)
		}
		before := held(t, live.Path)
		if err := syscall.Munmap(mapping); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := table.Compact(live.Path); err != nil {
				t.Fatal(err)
			}
			if after := held(t, live.Path); !reflect.DeepEqual(before, after) {
				t.Errorf("before %+v\nafter %+v", before, after)
			}
		}
		fi, err := os.Stat(live.Path)
		if limit := int64(100*len(before.functions) + 4*(8*len(before.functions)+table.PageSize) + 16*table.PageSize); err != nil || fi.Size() > limit || fi.Mode().Perm() != 0o600 {
			t.Errorf("%d bytes, limit %d; %v, %v", fi.Size(), limit, fi.Mode(), err)
		}
		reset(t, live.Path)
		if s := sinceReset(t, open(t, live.Path)); s.Total() != 0 {
			t.Errorf("%d calls after a reset", s.Total())
		}
	}
}

// contents is all that readers see of a table.
type contents struct {
	header    table.Header
	objects   []table.Object
	functions []table.Function
	all       []uint64
	since     []uint64
	owners    []table.Owner
	events    []table.Event
	missed    []table.Missed
}

func held(t *testing.T, path string) contents {
	t.Helper()
	tab := open(t, path)
	defer tab.Close()
	events, err := tab.Events()
	if err != nil {
		t.Fatal(err)
	}
	since, now := sinceReset(t, tab), snapshot(t, tab)
	return contents{tab.Header, tab.Objects, tab.Functions, now.Calls, since.Calls, since.Owners(), events, now.Missed}
}

// mapShared maps the file's header and closes the file.
func mapShared(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := syscall.Mmap(int(f.Fd()), 0, table.PageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A table that does not fit is refused with a line, and leaves nothing.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=300k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "a.dynprof")
	if _, err := table.Create(path, tabletest.Synthetic(40000)); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "hotspots prune") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	f, err := table.Create(path, tabletest.Synthetic(100))
	if err != nil {
		t.Fatalf("a small table: %v", err)
	}
	if err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if n := len(open(t, path).Functions); n != 100 {
		t.Errorf("%d functions", n)
	}
}

// TestTooMuch: names, and counters, that no table has room for.
func TestTooMuch(t *testing.T) {
	name := strings.Repeat("n", table.MaxString)
	for want, all := range map[string]iter.Seq[*table.Function]{
		"more than a count table holds": func(yield func(*table.Function) bool) {
			f := table.Function{Name: name, Counter: table.NoCounter}
			for range 1<<30/len(name) + 1 {
				yield(&f)
			}
		},
		"more than a row can address": func(yield func(*table.Function) bool) { yield(&table.Function{Counter: 1 << 28}) },
	} {
		spec := tabletest.Spec()
		spec.Stream = all
		path := filepath.Join(t.TempDir(), "table")
		if _, err := table.Create(path, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: there is a table", want)
		}
	}
}

// TestTooManyNames: of tables of one name there are so many and no more.
func TestTooManyNames(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "table") // on a disk it takes seconds
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "table")
	for n := range 9999 {
		name := path
		if n > 0 {
			name += fmt.Sprint(".", n+1)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := table.Create(path, tabletest.Spec()); err == nil || !strings.Contains(err.Error(), "choose another place") {
		t.Errorf("created: %v", err)
	}
}

// TestTooManyObjects: a function says its object in 16 bits.
func TestTooManyObjects(t *testing.T) {
	spec := tabletest.Spec()
	for len(spec.Objects) <= table.MaxObjects {
		spec.Objects = append(spec.Objects, table.Object{Path: "/usr/lib/one.so"})
	}
	path := filepath.Join(t.TempDir(), "table")
	if _, err := table.Create(path, spec); err == nil || !strings.Contains(err.Error(), "65537 objects") {
		t.Errorf("created: %v", err)
	}
	spec.Objects = spec.Objects[:table.MaxObjects]
	if f, err := table.Create(path, spec); err != nil || f.Objects.Capacity != table.MaxObjects {
		t.Errorf("not created: %v", err)
	}
}
