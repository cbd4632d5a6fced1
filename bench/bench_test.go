package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSpread: the interval is that of the order of the values: of seven the outermost two
// (98 %), of twenty-one the sixth and the sixteenth (97 %). Of five none is sure.
func TestSpread(t *testing.T) {
	var v []float64
	for i := range 21 {
		v = append(v, float64((i*8)%21+1))
	}
	for n, want := range map[int]spread{0: {}, 1: {1, 1, 1, false}, 7: {4, 1, 7, true}, 21: {11, 6, 16, true}} {
		some := slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return x > float64(n) })
		if got := spreadOf(some); got != want {
			t.Errorf("of %d: %+v, not %+v", n, got, want)
		}
	}
	if s := spreadOf([]float64{1, 1, 1, 1, 1}); s.Sure || s.within(1) || s.atMost(2) != notKnown {
		t.Errorf("five are enough: %+v", s)
	}
	if v[1] != 9 {
		t.Error("the values were sorted in place")
	}
	s := spread{1.10, 1.08, 1.12, true}
	for limit, want := range map[float64]answer{1.12: yes, 1.11: notKnown, 1.08: notKnown, 1.07: no} {
		if got := s.atMost(limit); got != want {
			t.Errorf("at most %v: %s, not %s", limit, got, want)
		}
	}
	if !s.within(0.02) || s.within(0.01) {
		t.Error("within")
	}
}

// TestRatios: of the rounds that both took part in, and of no others.
func TestRatios(t *testing.T) {
	a, b := []float64{2, notRun, 6, 8}, []float64{1, 1, notRun, 2, 3}
	if got := ratios(a, b); !slices.Equal(got, []float64{2, 4}) {
		t.Errorf("ratios %v", got)
	}
	if got := added(a, b); !slices.Equal(got, []float64{1, 6}) {
		t.Errorf("added %v", got)
	}
	if got := less(a, 1); !slices.Equal(got, []float64{1, notRun, 5, 7}) {
		t.Errorf("less %v", got)
	}
}

// TestKnown: our tools are measured until their ratios are known to 2 %, others not.
func TestKnown(t *testing.T) {
	runs := func(times ...int) (all []*taken) {
		for _, ms := range times {
			all = append(all, &taken{cpu: time.Duration(ms) * time.Millisecond})
		}
		return all
	}
	g := &group{m: &machine{}, entries: []*entry{{tool: native, runs: runs(100, 100, 100, 100, 100, 100)}, {tool: callgrind, runs: runs(900)}, {tool: dynprof}}}
	for want, times := range map[bool][]int{true: {110, 111, 110, 109, 110, 110}, false: {110, 118, 104, 109, 110, 112}} {
		if g.entries[2].runs = runs(times...); g.known() != want {
			t.Errorf("%v: known %t", times, !want)
		}
	}
	if o, c := g.entries[2].rounds(g.m, 7), g.entries[1].rounds(g.m, 7); o != 21 || c != 2 {
		t.Errorf("rounds %d and %d", o, c)
	}
}

// TestWrongCountsFail: one call too few or too many in one function is an error.
func TestWrongCountsFail(t *testing.T) {
	truth := counts{"a": 100, "b": 50, "c": 0}
	if v := compare(truth, counts{"a": 100, "b": 50, "unknown": 7}); !v.exact() || v.Called != 2 {
		t.Errorf("the true counts: %+v", v)
	}
	for name, got := range map[string]counts{
		"lost": {"a": 99, "b": 50}, "over": {"a": 101, "b": 50}, "missing": {"a": 100}, "uncalled": {"a": 100, "b": 50, "c": 1},
	} {
		v, f, w := compare(truth, got), &figures{}, &workFact{Name: "work"}
		w.check(f, dynprof, v)
		if v.exact() || f.wrong() == nil {
			t.Errorf("%s: %+v passes", name, v)
		}
	}
	if v := compare(truth, counts{"a": 75, "b": 75}); v.Lost != 25.0/150 || v.Over != 25.0/150 {
		t.Errorf("lost %v, over %v", v.Lost, v.Over)
	}
}

func TestCompareFindsRegressions(t *testing.T) {
	made := func(ratio, start float64) *figures {
		return &figures{
			Results:  []result{{Workload: "lua", Tool: "dynprof", Part: 1, Ratio: spread{ratio, ratio - 0.005, ratio + 0.005, true}}},
			StartUps: []startUp{{Program: "true", Tool: "dynprof", AddedMS: spread{start, start - 0.1, start + 0.1, true}}},
		}
	}
	old := made(1.10, 4)
	for name, c := range map[string]struct {
		now *figures
		bad bool
	}{
		"same": {made(1.10, 4), false}, "noise": {made(1.12, 4.3), false}, "better": {made(1.0, 2), false},
		"slower": {made(1.15, 4), true}, "later": {made(1.10, 5), true}, "gone": {&figures{}, true},
		"wrong": {&figures{Results: old.Results, Wrong: []string{"lua"}}, true},
	} {
		if err := compareFigures(io.Discard, old, c.now); (err != nil) != c.bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const assembly = "\t.text\n\t.globl\tf\n\t.type\tf, @function\nf:\n\tpushq\t%rbp\n\tmovq\t%rdi, %rbx\n\tleaq\t1(%rdi), %rax\n\tret\n\t.size\tf, .-f\nmain:\n\tcall\tf\n\tret\n"

// TestWithStubs pins the stubs by hand: what dynprof is measured against.
func TestWithStubs(t *testing.T) {
	stubs := func(name string, s style) (string, error) {
		return withStubs(assembly, []string{name}, map[string]*shape{"f": {9, []int{1, 3, 4, 1, 7}}}, s)
	}
	jump, err := stubs("f", styles[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nf:\n\t.byte 0xe9\n\t.long stub.f - . - 4\n\t.skip 3, 0xcc\nrest.f:\n\tret\n\t.size\tf, .-f\nmain:\n",
		"stub.f:\n\tincq limit_counters+0(%rip)\n\tpushq\t%rbp\n\tmovq\t%rdi, %rbx\n\tleaq\t1(%rdi), %rax\n\tjmp rest.f\n",
	} {
		if !strings.Contains(jump, want) {
			t.Errorf("jump: no\n%s\nin\n%s", want, jump)
		}
	}
	whole, err := stubs("f", styles[3])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\t.skip 4, 0xcc\nrest.f:\n\t.size\tf, .-f\n",
		"stub.f:\n\tincq %gs:0\n\tpushq\t%rbp\n\tmovq\t%rdi, %rbx\n\tleaq\t1(%rdi), %rax\n\tret\n\t.section",
	} {
		if !strings.Contains(whole, want) {
			t.Errorf("whole: no\n%s\nin\n%s", want, whole)
		}
	}
	if _, err := stubs("g", styles[0]); err == nil {
		t.Error("a function that is not there got a stub")
	}
}

func TestParsePeers(t *testing.T) {
	graph := "index % time    self  children    called     name\n" +
		"                0.00    0.10     750/750         main [2]\n" +
		"[1]    100.0    0.10    0.00     750+16417500 fib [1]\n" +
		"[2]    100.0    0.00    0.10                 main [2]\n" +
		"[3]      0.0    0.00    0.00      12         leaf [3]\n"
	if got, want := parseGprof(graph), (counts{"fib": 16_418_250, "leaf": 12}); !maps.Equal(got, want) {
		t.Errorf("gprof: %v, want %v", got, want)
	}
	profile := "Counters:\n  leaf:\n    Hash: 0x18\n    Counters: 1\n    Function count: 2000\n" +
		"  leaf.c:work:\n    Hash: 0x19\n    Counters: 2\n    Function count: 3\nInstrumentation level: Front-end\n"
	if got, want := parseProfdata(profile), (counts{"leaf": 2000, "work": 3}); !maps.Equal(got, want) {
		t.Errorf("clang: %v, want %v", got, want)
	}
	covered := `{"files": [{"lines": [{"count": 7}], "functions": [{"blocks": 4, "name": "leaf", "execution_count": 2000}, {"name": "work", "execution_count": 3}]}]}`
	if got, err := parseGcov(covered); err != nil || !maps.Equal(got, counts{"leaf": 2000, "work": 3}) {
		t.Errorf("gcc: %v, %v", got, err)
	}
}

func TestIsCall(t *testing.T) {
	for code, want := range map[string]bool{
		"\xe8\x01\x00\x00": true, "\x67\xe8\x01\x00": true, "\x41\xff\xd4": true, "\xff\x15\x00\x00": true,
		"\xe9\x01\x00\x00": false, "\xff\xe0": false, "\x74\x05": false, "": false,
	} {
		if isCall([]byte(code)) != want {
			t.Errorf("% x: %t", code, !want)
		}
	}
}

// TestDocsHaveEverySection: no figure of a run is missing from the document.
func TestDocsHaveEverySection(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	filled, err := fill(string(text), &figures{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		if strings.Count(filled, "<!-- figures "+s.name+" -->") != 1 {
			t.Errorf("docs/benchmarks.md does not have one place for %q", s.name)
		}
	}
	for _, bad := range []string{"<!-- figures nobody -->\n<!-- end -->", "<!-- figures run -->\n"} {
		if _, err := fill(bad, &figures{}); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}
