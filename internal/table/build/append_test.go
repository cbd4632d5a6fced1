package build_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestAppend adds an object twice to a table with counts in it.
func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	spec := tabletest.Spec()
	spec.NoSpare = false
	live := tabletest.CreateAt(t, path, spec)
	live.Row(layout.Row{})
	live.Set(0, 5, 6)
	before := tabletest.Open(t, path)
	snapshot, err := before.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	total := snapshot.Total()
	for range 2 {
		a, err := build.OpenAppend(tabletest.Writable(t, path))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Add(tabletest.Late(uint16(a.Objects.Count), a.Counters)); err != nil {
			t.Fatal(err)
		}
	}
	after := tabletest.Open(t, path)
	n, o := len(before.Functions), len(before.Objects)
	if len(after.Functions) != n+4 || len(after.Objects) != o+2 || after.Generation == before.Generation {
		t.Fatalf("%d functions, %d objects, generation %d", len(after.Functions), len(after.Objects), after.Generation)
	}
	for i, name := range []string{"late_one", "", "late_one", ""} {
		f := &after.Functions[n+i]
		if f.Name != name || int(f.Object) != o+i/2 || after.Objects[f.Object].Path != "/usr/lib/late.so" {
			t.Errorf("function %d: %+v", n+i, f)
		}
	}
	if f := &after.Functions[n]; len(f.Aliases) != 1 || f.Aliases[0] != "late_eins" {
		t.Errorf("aliases %v", f.Aliases)
	}
	if s, err := after.Snapshot(); err != nil || s.Total() != total {
		t.Errorf("%d calls, not %d: %v", s.Total(), total, err)
	}
	if s, err := before.Snapshot(); err != nil || s.Total() != total || s.Generation == before.Generation {
		t.Errorf("by the reader from before: %+v, %v", s, err)
	}
}

// TestRoom: what an object needs is what it gets.
func TestRoom(t *testing.T) {
	spec := tabletest.Late(0, 0)
	functions := func(yield func(*layout.Function) bool) {
		for i := range spec.Functions {
			if !yield(&spec.Functions[i]) {
				return
			}
		}
	}
	names := len("/usr/lib/late.so") + len("abcd") + len("late_one") + len("late_eins") + 4
	blocks := build.Room{Blocks: 3, Ways: 4, Loops: 1, Sites: 2, Counters: 2}
	enough := build.Room{Objects: 1, Functions: 2, Aliases: 2, Strings: names, Counters: 4, Blocks: 3, Ways: 4, Loops: 1, Sites: 2}
	if r := enough; !r.Take(&spec.Objects[0], functions, blocks) || r != (build.Room{}) {
		t.Errorf("left: %+v", r)
	}
	for _, less := range []build.Room{{Objects: 1}, {Functions: 1}, {Aliases: 1}, {Strings: 1}, {Counters: 1}, {Blocks: 1}, {Ways: 1}, {Loops: 1}, {Sites: 1}} {
		r := build.Room{
			Objects: 1 - less.Objects, Functions: 2 - less.Functions, Aliases: 2 - less.Aliases,
			Strings: names - less.Strings, Counters: 4 - less.Counters,
			Blocks: 3 - less.Blocks, Ways: 4 - less.Ways, Loops: 1 - less.Loops, Sites: 2 - less.Sites,
		}
		if before := r; r.Take(&spec.Objects[0], functions, blocks) || r != before {
			t.Errorf("%+v is enough, and %+v left", before, r)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	spec := tabletest.Spec()
	spec.NoSpare = true
	tabletest.CreateAt(t, path, spec)
	a, err := build.OpenAppend(tabletest.Writable(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(tabletest.Late(0, a.Counters)); !errors.Is(err, build.ErrFull) {
		t.Errorf("a full table: %v", err)
	}
	tabletest.Open(t, path) // is what it was
}
