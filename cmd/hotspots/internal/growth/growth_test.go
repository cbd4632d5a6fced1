package growth

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// runs are tables of tabletest's program, with calls of its four functions at each size.
func runs(t *testing.T, calls map[float64][]uint64) (all []Run) {
	for size, counts := range calls {
		live := tabletest.CreateAt(t, filepath.Join(t.TempDir(), "a"), tabletest.Spec())
		live.Row(layout.Row{State: layout.RowLive, Pid: 1, Tid: 1})
		live.Set(0, counts...)
		all = append(all, Run{size, tabletest.Open(t, live.Path)})
	}
	return all
}

// TestSeldom: a function that is called once more, or only at the largest size, is not told
// to grow faster than the input; one that is not called at each size has no exponent.
func TestSeldom(t *testing.T) {
	g, err := New(runs(t, map[float64][]uint64{
		100: {1, 3, 0, 45}, 300: {1, 3, 0, 45}, 1000: {2, 6, 9, 46},
	}), Options{})
	if err != nil || len(g.Functions) != 4 {
		t.Fatalf("%+v, %v", g, err)
	}
	for _, f := range g.Functions {
		if f.Faster || (f.Exponent == nil) != (f.Counts[0] == 0) {
			t.Errorf("%+v", f)
		}
	}
	var b bytes.Buffer
	if err := g.Text(&b, report.Style{}, 4); err != nil || g.JSON(&b) != nil || g.SVG(&b) != nil {
		t.Error(err)
	}
}

// TestOrder: those that grow faster than the input come first, by how; then all by calls.
func TestOrder(t *testing.T) {
	g, err := New(runs(t, map[float64][]uint64{
		10: {100, 1000, 5, 40}, 100: {10_000, 10_000, 5, 400}, 1000: {1_000_000, 100_000, 5, 4000},
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"main n^2", "demo::add(int, int) n", "foo::bar n", "demo+0x1170 1"}
	for i, f := range g.Functions {
		if got := f.Name + " " + f.Model; got != want[i] || f.Faster != (i == 0) {
			t.Errorf("%s, not %s", got, want[i])
		}
	}
	if g.Top = 1; len(g.first()) != 1 {
		t.Error(g.first())
	}
}

func TestSameBuild(t *testing.T) {
	of := func(path, id string) *table.Table {
		spec := tabletest.Spec()
		spec.Objects[0].Path, spec.Objects[0].BuildID = path, id
		return tabletest.Open(t, tabletest.CreateAt(t, filepath.Join(t.TempDir(), "a"), spec).Path)
	}
	one := of("/a", "12")
	for _, row := range []struct {
		other *table.Table
		same  bool
	}{{of("/a", "12"), true}, {of("/b", "12"), true}, {of("/a", "34"), false}, {of("/a", ""), false}} {
		if err := sameBuild(one, row.other); (err == nil) != row.same {
			t.Errorf("%v", err)
		}
	}
	if sameBuild(of("/a", ""), of("/a", "")) != nil || sameBuild(of("/a", ""), of("/b", "")) == nil {
		t.Error("without build IDs the path tells")
	}
}

// TestExtremes: whatever the counts are, what is written is valid.
func TestExtremes(t *testing.T) {
	const most = 1<<63 - 1
	for _, sizes := range [][3]float64{{1, 2, 3}, {1, 1 + 1e-15, 1e15}, {1e15 - 1, 1e15 - 0.5, 1e15}} {
		g, err := New(runs(t, map[float64][]uint64{sizes[0]: {most, 1, 0, 0}, sizes[1]: {0, most, 0, 1}, sizes[2]: {most, 0, most, 0}}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var text, out, picture bytes.Buffer
		if err := g.Text(&text, report.Style{}, 4); err != nil || g.JSON(&out) != nil || g.SVG(&picture) != nil || !json.Valid(out.Bytes()) ||
			strings.Contains(text.String()+picture.String(), "NaN") || strings.Contains(text.String()+picture.String(), "Inf") {
			t.Errorf("%v: %v, %v\n%s%s%s", sizes, err, g.JSON(&out), text.Bytes(), out.Bytes(), picture.Bytes())
		}
	}
}

// TestColumns: as text there is room for four sizes.
func TestColumns(t *testing.T) {
	for n, want := range map[int][]int{3: {0, 1, 2}, 4: {0, 1, 2, 3}, 5: {0, 1, 2, 4}, 10: {0, 3, 6, 9}} {
		if got := (&Growth{Sizes: make([]float64, n)}).columns(); !slices.Equal(got, want) {
			t.Errorf("%d: %v", n, got)
		}
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0", 1: "1", 2.5: "2.5", 9999: "9999", 10_000: "10k", 12_345: "12.35k", 123_456: "123.5k", 999_940: "999.9k", 999_960: "1M",
		1e6: "1M", 2_097_152: "2.097M", 1e9: "1G", 123e12: "123T", 1.8446744073709552e19: "1.845e+19",
	} {
		if got := short(n); got != want {
			t.Errorf("%v: %s, not %s", n, got, want)
		}
	}
}
