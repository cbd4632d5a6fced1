package edit_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	spec := tabletest.Synthetic(3000)
	live := tabletest.CreateAt(t, filepath.Join(dir, "a.dynprof"), spec)
	live.Row(layout.Row{Index: 0, State: layout.RowLive})
	live.Row(layout.Row{Index: 5, State: layout.RowLive})
	live.Set(0, 1, 2, 3)
	live.Set(5, 10, 20, 30)
	reset(t, live.Path)
	live.Set(0, 2, 4, 6)
	to := filepath.Join(dir, "copy.dynprof")
	for range 2 { // the second time it is there
		if err := edit.Copy(live.Path, to); err != nil {
			t.Fatal(err)
		}
	}
	original, copied := tabletest.Open(t, live.Path), tabletest.Open(t, to)
	a, b := tabletest.SinceReset(t, original), tabletest.SinceReset(t, copied)
	if !reflect.DeepEqual(a.Calls, b.Calls) || b.Total() != 6 || !reflect.DeepEqual(original.Functions, copied.Functions) {
		t.Errorf("%d calls in the copy, %d in the original", b.Total(), a.Total())
	}
	if alive.Of(copied.File) != alive.Copied || copied.Header.Snapshot.IsZero() {
		t.Errorf("status %v, copied at %v", alive.Of(copied.File), copied.Header.Snapshot)
	}
	reset(t, to) // a table like any other
	if n := tabletest.SinceReset(t, copied).Total(); n != 0 {
		t.Errorf("%d calls", n)
	}
	e, err := find.Stat(to)
	if err != nil {
		t.Fatal(err)
	}
	if fi, _ := os.Stat(to); e.Blocks > 2<<20 || fi.Mode().Perm() != 0o600 {
		t.Errorf("takes %d bytes, mode %v", e.Blocks, fi.Mode())
	}
	if err := edit.Copy(filepath.Join(dir, "missing"), to); err == nil {
		t.Error("copied what is not there")
	}
	if err := edit.Copy(live.Path, filepath.Join(dir, "no", "where")); err == nil {
		t.Error("copied to where there is no directory")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".dynprof-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
