package build_test

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func TestRoomIsReserved(t *testing.T) {
	spec := tabletest.Synthetic(3000)
	spec.Flags = layout.FlagThreshold
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
	least := int64(2*(layout.RowCounters+8*3000) + 4*3000 + layout.EvEntrySize*3256 + 3000*layout.FnEntrySize)
	if got := st.Blocks * 512; got < least || got > least+1<<20 {
		t.Errorf("%d bytes on disk for %d reserved, apparent size %d", got, least, st.Size)
	}
	if st.Size > build.MaxFileSize || st.Mode&0o777 != 0o600 {
		t.Errorf("apparent size %d, mode %o", st.Size, st.Mode)
	}
}

// TestReserve: rows that are taken soon have their room, and no more than there are.
func TestReserve(t *testing.T) {
	const counters, rows = 3000, 50
	f, err := build.Create(filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Synthetic(counters))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	blocks := func() int64 {
		var st syscall.Stat_t
		if err := syscall.Stat(f.Path(), &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	before := blocks()
	for _, n := range []int{0, 1, rows, rows} {
		if err := f.Reserve(n); err != nil {
			t.Fatal(err)
		}
	}
	if grown, least := blocks()-before, int64((rows-build.RowsReserved)*(layout.RowCounters+8*counters)); grown < least || grown > 2*least {
		t.Errorf("%d bytes more on disk, not %d", grown, least)
	}
	word := make([]byte, 4)
	reader, err := os.Open(f.Path())
	if err == nil {
		defer reader.Close()
		_, err = reader.ReadAt(word, layout.HdrRowsReserved)
	}
	if err != nil || word[0] != rows {
		t.Errorf("%d rows are said to have room: %v", word[0], err)
	}
	f.Rows.Capacity = 3
	if err := f.Reserve(rows * 10); err != nil || blocks()-before > 100*(layout.RowCounters+8*counters) {
		t.Errorf("more rows than there are: %v", err)
	}
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
	if _, err := build.Create(path, tabletest.Synthetic(40000)); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "hotspots prune") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	f, err := build.Create(path, tabletest.Synthetic(100))
	if err != nil {
		t.Fatalf("a small table: %v", err)
	}
	if err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if n := len(tabletest.Open(t, path).Functions); n != 100 {
		t.Errorf("%d functions", n)
	}
}

// TestTooMuch: names, and counters, that no table has room for.
func TestTooMuch(t *testing.T) {
	name := strings.Repeat("n", layout.MaxString)
	for want, all := range map[string]iter.Seq[*layout.Function]{
		"more than a count table holds": func(yield func(*layout.Function) bool) {
			f := layout.Function{Name: name, Counter: layout.NoCounter}
			for range 1<<30/len(name) + 1 {
				yield(&f)
			}
		},
		"more than a row can address": func(yield func(*layout.Function) bool) { yield(&layout.Function{Counter: 1 << 28}) },
	} {
		spec := tabletest.Spec()
		spec.Stream = all
		path := filepath.Join(t.TempDir(), "table")
		if _, err := build.Create(path, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: there is a table", want)
		}
	}
}

// TestTooManyObjects: a function says its object in 16 bits.
func TestTooManyObjects(t *testing.T) {
	spec := tabletest.Spec()
	for len(spec.Objects) <= build.MaxObjects {
		spec.Objects = append(spec.Objects, layout.Object{Path: "/usr/lib/one.so"})
	}
	path := filepath.Join(t.TempDir(), "table")
	if _, err := build.Create(path, spec); err == nil || !strings.Contains(err.Error(), "65537 objects") {
		t.Errorf("created: %v", err)
	}
	spec.Objects = spec.Objects[:build.MaxObjects]
	if f, err := build.Create(path, spec); err != nil || f.Objects.Capacity != build.MaxObjects {
		t.Errorf("not created: %v", err)
	}
}

// TestFileSizeLimit runs in a process of its own, as the limit is for one.
func TestFileSizeLimit(t *testing.T) {
	if path := os.Getenv("TABLE_TEST_LIMITED"); path != "" {
		signal.Ignore(syscall.SIGXFSZ)
		createLimited(path)
		os.Exit(0)
	}
	for _, row := range []struct {
		blocks, want string // of 512 bytes
	}{
		{"2000000", "fewer rows"}, {"500000", "no spare"}, {"800", "no spare, few rows"}, {"40", "raise it"},
	} {
		t.Run(row.blocks+" blocks", func(t *testing.T) {
			cmd := exec.Command("sh", "-c", `ulimit -f $0 && exec "$1" -test.run "^TestFileSizeLimit\$"`, row.blocks, os.Args[0])
			path := filepath.Join(t.TempDir(), "a.dynprof")
			cmd.Env = append(os.Environ(), "TABLE_TEST_LIMITED="+path)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), row.want) {
				t.Fatalf("got %q (%v), want %s", out, err, row.want)
			}
			if _, err := os.Stat(path); (err == nil) != (row.want != "raise it") {
				t.Errorf("after %q: %v", out, err)
			}
		})
	}
}

func createLimited(path string) {
	f, err := build.Create(path, tabletest.Synthetic(1000))
	switch {
	case err != nil:
		fmt.Print(err)
	case f.CountersCap == 1000 && f.Rows.Capacity == build.MinRows:
		fmt.Print("no spare")
	case f.CountersCap == 1000 && f.Rows.Capacity >= build.RowsReserved:
		fmt.Print("no spare, few rows")
	case f.Rows.Capacity < 1000 && f.Rows.Capacity >= build.MinRows:
		fmt.Print("fewer rows")
	default:
		fmt.Printf("%+v", f.Geometry)
	}
}

func BenchmarkCreate40000(b *testing.B) {
	spec, dir := tabletest.Synthetic(40000), b.TempDir()
	b.ReportAllocs()
	for b.Loop() {
		f, err := build.Create(filepath.Join(dir, "a.dynprof"), spec)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Publish(); err != nil {
			b.Fatal(err)
		}
		f.Close()
		b.StopTimer()
		os.Remove(f.Path())
		b.StartTimer()
	}
}
