package test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// growth is the JSON of hotspots growth.
type growth struct {
	Program   string
	Sizes     []float64
	Functions []struct {
		Name     string
		Counts   []uint64
		Faster   bool
		Model    string
		Exponent *float64
		Fits     []struct{ Offset, Factor, Error float64 }
	}
}

// growthOf runs a program of testdata with sizes, and returns the tables of the runs, too.
func growthOf(t *testing.T, program string, flags ...string) (g growth, tables []string) {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{build(t, "hotspots"), "growth", "--sizes", "16,1.28e2,64", "--keep", dir, "--format", "json"}, flags...)
	r := run(t, cmd(append(args, "--", program, "{}")...))
	if err := json.Unmarshal([]byte(r.stdout), &g); err != nil || r.status != 0 || r.stderr != "hotspots: with size 64 the program exited with status 3; its calls are counted all the same\n" {
		t.Fatalf("%v: %+v", err, r)
	}
	for _, size := range []string{"16", "64", "128"} {
		tables = append(tables, filepath.Join(dir, size+".dynprof"))
	}
	return g, tables
}

// TestGrowth: of functions whose calls are known counts, models, factors and exponents are
// what they are, by running the program and from tables, in whatever order.
func TestGrowth(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O2"}, "growth.c")
	g, tables := growthOf(t, program)
	if g.Program != program || !slices.Equal(g.Sizes, []float64{16, 64, 128}) {
		t.Errorf("%+v", g)
	}
	var names []string
	for _, f := range g.Functions {
		names = append(names, f.Name)
		want, ok := map[string]struct {
			model    string
			exponent float64 // 0: not told exactly
			faster   bool
			calls    func(n float64) float64
		}{
			"once":      {"1", 0, false, func(float64) float64 { return 1 }},
			"logarithm": {"log n", 0, false, math.Log2},
			"linear":    {"n", 1, false, func(n float64) float64 { return n }},
			"n_log_n":   {"n log n", 0, true, func(n float64) float64 { return n * math.Log2(n) }},
			"square":    {"n^2", 2, true, func(n float64) float64 { return n * n }},
			"cube":      {"n^3", 3, true, func(n float64) float64 { return n * n * n }},
		}[f.Name]
		if !ok {
			if f.Faster {
				t.Errorf("%+v", f)
			}
			continue
		}
		for i, n := range g.Sizes {
			if f.Counts[i] != uint64(want.calls(n)) {
				t.Errorf("%s: %d calls of size %g", f.Name, f.Counts[i], n)
			}
		}
		if f.Model != want.model || f.Faster != want.faster || want.exponent != 0 && math.Abs(*f.Exponent-want.exponent) > 1e-9 || f.Fits[0].Error > 1e-9 {
			t.Errorf("%+v", f)
		}
	}
	if want := []string{"cube", "square", "n_log_n", "linear"}; !slices.Equal(names[:4], want) || slices.Contains(names, "never") {
		t.Errorf("%q, not %q first", names, want)
	}
	hotspots := build(t, "hotspots")
	same := run(t, cmd(hotspots, "growth", tables[2], tables[0], tables[1], "--size", "128,16,64", "--format", "json"))
	var again growth
	if err := json.Unmarshal([]byte(same.stdout), &again); err != nil || len(again.Functions) != len(g.Functions) || again.Functions[0].Name != "cube" {
		t.Errorf("%v: %+v", err, same)
	}
	text := run(t, cmd(hotspots, "growth", tables[0], tables[1], tables[2], "--size", "16,64,128", "--top", "3"))
	for i, line := range strings.Split(text.stdout, "\n") {
		if want := []string{"3 grow faster than the input", "n=16", "cube", "square", "n_log_n", "", "cube", "⠀"}; i < len(want) && !strings.Contains(line, want[i]) || len([]rune(line)) > 80 && i > 0 {
			t.Errorf("%q", line)
		}
	}
	svg := filepath.Join(t.TempDir(), "growth.svg")
	if r := run(t, cmd(hotspots, "growth", tables[0], tables[1], tables[2], "--size", "16,64,128", "--format", "svg", "-o", svg)); r != (result{}) {
		t.Errorf("%+v", r)
	}
	for d := xml.NewDecoder(strings.NewReader(read(t, svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if s := read(t, svg); strings.Count(s, "<circle") != 6*3 || !strings.Contains(s, ">n^3, exponent 3.00 ± 0.00; 2.097M<") {
		t.Error(s)
	}
}

// TestGrowthInstructions: a function of one block has executed so many instructions a call.
func TestGrowthInstructions(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O2"}, "growth.c")
	g, _ := growthOf(t, program, "--value", "instructions", "--filter", "^(cube|square)$")
	if len(g.Functions) != 2 || g.Functions[0].Counts[2] != 128*128*128*6 || g.Functions[1].Counts[2] != 128*128*5 {
		t.Errorf("%+v", g.Functions)
	}
}

// TestGrowthErrors: what cannot be compared, or run, is said in one line.
func TestGrowthErrors(t *testing.T) {
	lane.Parallel(t)
	hotspots, gcc := build(t, "hotspots"), need(t, "gcc")
	program := compile(t, gcc, []string{"-O2"}, "growth.c")
	_, tables := growthOf(t, program)
	_, other := countedAt(t, cmd(compile(t, gcc, []string{"-O1"}, "growth.c"), "16"))
	for _, row := range []struct {
		says   string
		status int
		args   []string
	}{
		{"2 different sizes: growth needs 3", 2, []string{tables[0], tables[1], "--size", "16,64"}},
		{"2 different sizes: growth needs 3", 2, []string{tables[0], tables[1], tables[2], "--size", "16,64,64"}},
		{"there are 2 tables and 3 sizes", 2, []string{tables[0], tables[1], "--size", "16,64,128"}},
		{"a size is a number", 2, []string{tables[0], tables[1], tables[2], "--size", "16,64,many"}},
		{"a size is a number", 2, []string{tables[0], tables[1], tables[2], "--size", "0,64,128"}},
		{"a size is a number", 2, []string{tables[0], tables[1], tables[2], "--size", "NaN,64,128"}},
		{"0 different sizes", 2, []string{tables[0]}},
		{"named twice", 2, []string{tables[0], tables[0], tables[1], "--size", "16,64,128"}},
		{"growth is of runs of one build", 1, []string{tables[0], tables[1], other, "--size", "16,64,128"}},
		{"no function was called at any size", 1, []string{tables[0], tables[1], tables[2], "--size", "16,64,128", "--filter", "nosuch"}},
		{"counts no blocks", 1, []string{tables[0], tables[1], tables[2], "--size", "16,64,128", "--value", "instructions"}},
		{"would write over the table", 2, []string{tables[0], tables[1], tables[2], "--size", "16,64,128", "-o", tables[1]}},
		{"nothing named", 2, []string{"--sizes", "1,2,3"}},
		{"has no {}", 2, []string{"--sizes", "1,2,3", "--", program, "16"}},
		{"no program named behind --", 2, []string{"--sizes", "1,2,3", "--"}},
		{"name one or the other", 2, []string{tables[0], "--sizes", "1,2,3", "--", program, "{}"}},
		{"no such program", 127, []string{"--sizes", "1,2,3", "--", "/nowhere/program", "{}"}},
		{"killed with size 1", 1, []string{"--sizes", "1,2,3", "--", "sh", "-c", "kill -9 $$ # {}"}},
	} {
		if row.says == "counts no blocks" && setting("TEST_BLOCKS") != "" {
			continue
		}
		r := run(t, cmd(append([]string{hotspots, "growth"}, row.args...)...))
		if r.status != row.status || r.stdout != "" {
			t.Errorf("%q: %+v", row.args, r)
		}
		oneLine(t, r.stderr, row.says, "")
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "hotspots-growth*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
