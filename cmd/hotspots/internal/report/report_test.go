package report

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func TestPercentIsRoundedDown(t *testing.T) {
	for _, row := range []struct {
		n, of int
		want  float64
	}{{0, 3, 0}, {2, 3, 66.66}, {39430, 39431, 99.99}, {7, 7, 100}} {
		if got := percent(row.n, row.of); got == nil || *got != row.want {
			t.Errorf("%d of %d: %v, want %v", row.n, row.of, got, row.want)
		}
	}
	if got := percent(0, 0); got != nil {
		t.Errorf("none of none: %v", *got)
	}
}

// TestMost: the functions called most are those that a whole report has in front,
// whichever of several tables counted them.
func TestMost(t *testing.T) {
	const functions = 40
	dir := t.TempDir()
	var tables []*table.Table
	for k, counts := range [][]uint64{make([]uint64, functions), make([]uint64, functions)} {
		for i := range counts {
			counts[i] = uint64(i * (7 + 4*k) % 11) // many are called equally often, and some never
		}
		live := tabletest.CreateAt(t, filepath.Join(dir, fmt.Sprint(k, ".dynprof")), tabletest.Synthetic(functions))
		live.Row(layout.Row{Pid: 1, Tid: 1})
		live.Set(0, counts...)
		tables = append(tables, tabletest.Open(t, live.Path))
		whole, err := New(tables, Options{})
		if err != nil {
			t.Fatal(err)
		}
		whole.Keep(func(f *Function) bool { return f.Calls > 0 })
		if whole.Sort("calls"); len(whole.Functions) < functions/2 {
			t.Fatalf("%d functions are called", len(whole.Functions))
		}
		for n := 1; n <= functions+1; n++ {
			most, err := New(tables, Options{Most: n})
			if err != nil {
				t.Fatal(err)
			}
			most.Sort("calls")
			most.Top(n)
			if got, want := names(most.Functions), names(whole.Functions[:min(n, len(whole.Functions))]); got != want {
				t.Errorf("%d of %d tables:\n%s\nnot\n%s", n, k+1, got, want)
			}
		}
	}
}

// TestVersions: two versions of an object at one path have functions of their own, also if
// no build ID tells them apart; the same version does not.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	open := func(name string, shift uint64, functions ...string) *table.Table {
		spec := tabletest.Spec()
		spec.Objects[0].BuildID, spec.Functions = "", nil
		for i, f := range functions {
			spec.Functions = append(spec.Functions, layout.Function{Address: 0x1000 + shift + uint64(32*i), Size: 32, Name: f, Counter: uint32(i), Source: ledger.SourceSymtab, Tactic: ledger.TacticJump})
		}
		live := tabletest.CreateAt(t, filepath.Join(dir, name), spec)
		live.Row(layout.Row{Pid: 1, Tid: 1})
		live.Set(0, 5, 7)
		return tabletest.Open(t, live.Path)
	}
	older, again, newer, moved := open("older", 0, "one", "two"), open("again", 0, "one", "two"), open("newer", 0, "none", "two"), open("moved", 32, "two", "one")
	r, err := New([]*table.Table{older, again, newer}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Sort("name")
	const object = "/opt/demo/demo "
	if got, want := names(r.Functions), object+"none 5; "+object+"one 10; "+object+"two 21; "; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if all := r.ByObject("calls"); len(all) != 1 || all[0].Calls != 36 || all[0].Functions != 3 {
		t.Errorf("%+v", all[0])
	}
	for after, want := range map[*table.Table]string{again: "one 0; two 0; ", moved: "one 2; two -2; "} {
		d, err := NewDiff(older, after, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		d.Sort("name")
		for _, c := range d.Functions {
			got += fmt.Sprintf("%s %d; ", c.Name, c.Delta)
		}
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func names(list []*Function) (s string) {
	for _, f := range list {
		s += fmt.Sprintf("%s %s %d; ", f.Object, f.Name, f.Calls)
	}
	return s
}
