package table_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// sameMost compares a table of which a part was read with the whole.
func sameMost(t *testing.T, part, whole *table.Table, s *table.Snapshot) {
	t.Helper()
	p, err := part.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if p.Total() != s.Total() || part.TextChanged() != whole.TextChanged() || !reflect.DeepEqual(p.Owners(), s.Owners()) {
		t.Errorf("%d calls of %d, %v", p.Total(), s.Total(), p.Owners())
	}
	least := uint64(1)
	if called := slices.DeleteFunc(slices.Clone(s.Calls), func(n uint64) bool { return n == 0 }); len(called) > 2 {
		slices.Sort(called)
		least = called[len(called)-2]
	}
	next := 0
	for i := range whole.Functions {
		if s.Calls[i] < least {
			continue
		}
		if next == len(part.Functions) || !reflect.DeepEqual(part.Functions[next], whole.Functions[i]) || p.Calls[next] != s.Calls[i] || p.Hot(next) != s.Hot(i) {
			t.Fatalf("function %d, number %d of %d", i, next, len(part.Functions))
		}
		next++
	}
	if next != len(part.Functions) {
		t.Errorf("%d functions, not %d", len(part.Functions), next)
	}
}

// TestOpenMost: the functions called most are those of the whole table, and so are the
// sums, in rows of many pages, with functions that are called equally often, that have
// aliases, and that are not counted any more.
func TestOpenMost(t *testing.T) {
	for name, counts := range map[string][][]uint64{
		"none":       {},
		"one":        {{0, 7}},
		"two rows":   {{1, 2, 3, 4}, {9, 0, 0, 1}},
		"equal ones": {{5, 5, 5, 5, 5, 5}},
		"many":       {slices.Repeat([]uint64{3, 1, 2}, 600), slices.Repeat([]uint64{0, 0, 1, 0}, 450)},
		"fired":      {{5, 1<<63 | 9, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := tabletest.Synthetic(1800)
			for i := range spec.Functions {
				if i%7 == 1 {
					spec.Functions[i].Aliases = []string{"also", spec.Functions[i].Name + "_too"}
				}
				if i%500 == 3 {
					spec.Functions[i].Reason = ledger.ReasonTextChanged
				}
			}
			live := tabletest.Create(t, "a.dynprof", spec)
			for row, calls := range counts {
				live.Row(layout.Row{Index: uint32(row), State: layout.RowLive, Pid: 9, Tid: uint32(row + 1)})
				live.Set(uint32(row), calls...)
			}
			part, err := table.OpenMost(live.Path, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer part.Close()
			whole := tabletest.Open(t, live.Path)
			sameMost(t, part, whole, tabletest.Snapshot(t, whole))
			if name != "none" && len(part.Functions) == len(whole.Functions) {
				t.Error("all functions were read")
			}
		})
	}
}

// TestOpenMostOfAll: where it is not simple the whole table is read, and what is none is
// an error.
func TestOpenMostOfAll(t *testing.T) {
	twice := tabletest.Synthetic(5)
	twice.Objects = append(twice.Objects, twice.Objects[0])
	adding := tabletest.Create(t, "c.dynprof", tabletest.Synthetic(5))
	adding.Word(layout.HdrGeneration, 3)
	reset := tabletest.Create(t, "d.dynprof", tabletest.Synthetic(5))
	reset.Word(layout.HdrBaseline, 1<<8)
	shared := tabletest.Create(t, "e.dynprof", tabletest.Synthetic(5))
	counter := func(i int) int64 {
		return int64(shared.Functions.Offset) + int64(i)*int64(shared.Functions.EntrySize) + layout.FnCounter
	}
	shared.Word(counter(1), shared.Load(counter(0)))
	for name, path := range map[string]string{
		"a counter twice": shared.Path,
		"an object twice": tabletest.Create(t, "b.dynprof", twice).Path, "objects come": adding.Path, "reset": reset.Path,
	} {
		got, err := table.OpenMost(path, 1)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(got.Functions) != 5 {
			t.Errorf("%s: %d functions", name, len(got.Functions))
		}
		got.Close()
	}
	if _, err := table.OpenMost(filepath.Join(t.TempDir(), "none"), 1); err == nil {
		t.Error("no file, no error")
	}
}
