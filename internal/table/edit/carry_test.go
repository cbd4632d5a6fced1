package edit_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestCarry: a new table begins with the counts of an earlier one of the same process and functions,
// and of no other.
func TestCarry(t *testing.T) {
	own := func() *build.Spec {
		spec := tabletest.Spec()
		spec.Identity = alive.Identify(os.Getpid())
		return spec
	}
	for name, row := range map[string]struct {
		of, in *build.Spec
		change func(*tabletest.Live)
		other  bool // it is not of this process
		fails  bool
	}{
		"same":            {of: own(), in: own()},
		"another process": {of: tabletest.Spec(), in: own(), other: true, fails: true},
		"reset":           {of: own(), in: own(), change: func(l *tabletest.Live) { l.Word(layout.HdrBaseline, 1) }, fails: true},
		"events":          {of: own(), in: own(), change: func(l *tabletest.Live) { l.Word(layout.HdrEventsHead, 1) }, fails: true},
		"other functions": {of: own(), in: func() *build.Spec {
			s := own()
			s.Functions[0].Address += 16
			return s
		}(), fails: true},
		"other objects": {of: own(), in: func() *build.Spec {
			s := own()
			s.Objects[0].Bias += 4096
			return s
		}(), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			live := tabletest.Create(t, "old.dynprof", row.of)
			live.Row(layout.Row{Index: 0, State: layout.RowFree})
			live.Set(0, 1, 2, 3)
			live.Row(layout.Row{Index: 1, State: layout.RowFree})
			live.Set(1, 10, 20, 30)
			if row.change != nil {
				row.change(live)
			}
			live.Close()
			f, err := build.Create(filepath.Join(t.TempDir(), "new.dynprof"), row.in)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			err = edit.Carry(live.Path, f.Path())
			if errors.Is(err, edit.ErrOther) != row.other || (err != nil) != row.fails {
				t.Fatalf("it is %v", err)
			}
			if err := f.Publish(); err != nil {
				t.Fatal(err)
			}
			want := uint64(0)
			if !row.fails {
				want = total(t, live.Path)
			}
			if got := total(t, f.Path()); got != want || !row.fails && got == 0 {
				t.Errorf("%d calls, not %d", got, want)
			}
		})
	}
	if err := edit.Carry(filepath.Join(t.TempDir(), "missing"), "new"); !errors.Is(err, edit.ErrOther) {
		t.Errorf("of none: %v", err)
	}
}

func total(t *testing.T, path string) uint64 {
	t.Helper()
	f, err := table.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s.Total()
}
