package table_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// late is an object with two functions, numbered behind those of spec.
func late(object uint16, counter uint32) *table.Spec {
	return &table.Spec{
		Objects: []table.Object{{Path: "/usr/lib/late.so", BuildID: "abcd", Flags: table.ObjSelected | table.ObjLate}},
		Functions: []table.Function{
			{Address: 0x1000, Size: 9, Name: "late_one", Aliases: []string{"late_eins"}, Counter: counter, Object: object, Tactic: ledger.TacticJump},
			{Address: 0x1010, Size: 7, Counter: counter + 1, Object: object, Tactic: ledger.TacticWholeBody},
		},
	}
}

// TestAppend adds an object twice to a table with counts in it.
func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	spec := tabletest.Spec()
	spec.NoSpare = false
	live := tabletest.CreateAt(t, path, spec)
	live.Row(table.Row{})
	live.Set(0, 5, 6)
	before := open(t, path)
	snapshot, err := before.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	total := snapshot.Total()
	for range 2 {
		a, err := table.OpenAppend(writable(t, path))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Add(late(uint16(a.Objects.Count), a.Counters)); err != nil {
			t.Fatal(err)
		}
	}
	after := open(t, path)
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

func writable(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestRoom: what an object needs is what it gets.
func TestRoom(t *testing.T) {
	spec := late(0, 0)
	functions := func(yield func(*table.Function) bool) {
		for i := range spec.Functions {
			if !yield(&spec.Functions[i]) {
				return
			}
		}
	}
	names := len("/usr/lib/late.so") + len("abcd") + len("late_one") + len("late_eins") + 4
	enough := table.Room{Objects: 1, Functions: 2, Aliases: 2, Strings: names, Counters: 2}
	if r := enough; !r.Take(&spec.Objects[0], functions) || r != (table.Room{}) {
		t.Errorf("left: %+v", r)
	}
	for _, less := range []table.Room{{Objects: 1}, {Functions: 1}, {Aliases: 1}, {Strings: 1}, {Counters: 1}} {
		r := table.Room{
			Objects: 1 - less.Objects, Functions: 2 - less.Functions, Aliases: 2 - less.Aliases,
			Strings: names - less.Strings, Counters: 2 - less.Counters,
		}
		if before := r; r.Take(&spec.Objects[0], functions) || r != before {
			t.Errorf("%+v is enough, and %+v left", before, r)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	spec := tabletest.Spec()
	spec.NoSpare = true
	tabletest.CreateAt(t, path, spec)
	a, err := table.OpenAppend(writable(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(late(0, a.Counters)); !errors.Is(err, table.ErrFull) {
		t.Errorf("a full table: %v", err)
	}
	open(t, path) // is what it was
}
