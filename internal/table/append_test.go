package table_test

import (
	"errors"
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
		a, err := table.OpenAppend(path, live.Nonce)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Add(late(uint16(a.Objects.Count), a.Counters)); err != nil {
			t.Fatal(err)
		}
		a.Close()
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

func TestAppendRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	spec := tabletest.Spec()
	spec.NoSpare = true
	live := tabletest.CreateAt(t, path, spec)
	if _, err := table.OpenAppend(path, [16]byte{1}); err == nil {
		t.Error("another table's nonce is accepted")
	}
	a, err := table.OpenAppend(path, live.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Add(late(0, a.Counters)); !errors.Is(err, table.ErrFull) {
		t.Errorf("a full table: %v", err)
	}
	open(t, path) // is what it was
}
