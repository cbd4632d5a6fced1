package bisect

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// run searches n items with a predicate and counts the tests.
func run(t *testing.T, n int, bad func(set []int) bool) (found []int, tests int) {
	t.Helper()
	s := search{
		left: func(left int) {
			if left < 1 || left > n {
				t.Errorf("%d left of %d", left, n)
			}
		},
		bad: func(set []int) (bool, error) {
			tests++
			if !slices.IsSorted(set) || len(set) == 0 || set[0] < 0 || set[len(set)-1] >= n {
				t.Fatalf("not a sorted set of %d items: %v", n, set)
			}
			return bad(set), nil
		},
	}
	found, err := s.minimal(n)
	if err != nil {
		t.Fatal(err)
	}
	return found, tests
}

func containsAll(set, some []int) bool {
	for _, i := range some {
		if !slices.Contains(set, i) {
			return false
		}
	}
	return true
}

// A set of k items is found in k times log2(n)+1 tests, and k more to see that
// each is needed.
func TestMinimalFindsTheSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 7, 100, 48000} {
		for k := 1; k <= min(n, 5); k++ {
			for range 20 {
				want := random.Perm(n)[:k]
				slices.Sort(want)
				got, tests := run(t, n, func(set []int) bool { return containsAll(set, want) })
				if !slices.Equal(got, want) {
					t.Errorf("of %d items %v, want %v", n, got, want)
				}
				most := k * steps(n)
				if k > 1 {
					most += k
				}
				if tests > most {
					t.Errorf("%d tests for %d of %d items, want at most %d", tests, k, n, most)
				}
			}
		}
	}
}

// Of several sets that are bad by themselves one is found.
func TestMinimalOfSeveral(t *testing.T) {
	sets := [][]int{{40, 50}, {3, 90}, {77}}
	got, _ := run(t, 100, func(set []int) bool {
		return slices.ContainsFunc(sets, func(s []int) bool { return containsAll(set, s) })
	})
	if !slices.ContainsFunc(sets, func(s []int) bool { return slices.Equal(s, got) }) {
		t.Errorf("found %v", got)
	}
}

// A predicate without order: the set is bad, and none of it can be left out.
func TestMinimalNotMonotone(t *testing.T) {
	for seed := range uint64(200) {
		n := 2 + int(seed%40)
		bad := func(set []int) bool {
			if len(set) == n {
				return true
			}
			random := rand.New(rand.NewPCG(seed, 0))
			for _, i := range set {
				random = rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
			}
			return random.IntN(3) == 0
		}
		got, _ := run(t, n, bad)
		if !bad(got) {
			t.Errorf("%d: %v is not bad", seed, got)
		}
		for i := range got {
			if less := slices.Delete(slices.Clone(got), i, i+1); len(less) > 0 && bad(less) {
				t.Errorf("%d: %v is bad without item %d", seed, got, i)
			}
		}
	}
}

func TestMinimalGivesUp(t *testing.T) {
	n, tests := 1000, 0
	s := search{left: func(int) {}, bad: func(set []int) (bool, error) { tests++; return len(set) == n, nil }}
	if got, err := s.minimal(n); !errors.Is(err, errTooMany) {
		t.Errorf("%v, %v", got, err)
	}
	if most := maxTogether * steps(n); tests > most {
		t.Errorf("%d tests, want at most %d", tests, most)
	}
	failed := errors.New("run failed")
	s.bad = func([]int) (bool, error) { return false, failed }
	if _, err := s.minimal(n); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}

func TestFirstDifference(t *testing.T) {
	long := strings.Repeat("x", 3*pieceSize)
	text := func(s string) *string { return &s }
	for _, row := range []struct {
		name          string
		a, b          string
		line          int
		without, with *string
	}{
		{"same", "a\nb\n", "a\nb\n", 0, nil, nil},
		{"both empty", "", "", 0, nil, nil},
		{"long and same", long, long, 0, nil, nil},
		{"second line", "a\nb\nc\n", "a\nB\nc\n", 2, text("b"), text("B")},
		{"shorter", "a\nb\n", "a\n", 2, text("b"), nil},
		{"longer", "", "a\n", 1, nil, text("a")},
		{"no newline at the end", "a\n", "a", 1, text("a"), text(`"a"`)},
		{"not text", "a\x1b[2J\n", "a\x00\n", 1, text(`"a\x1b[2J\n"`), text(`"a\x00\n"`)},
		{"far in a line", strings.Repeat("x", 500) + "a\n", strings.Repeat("x", 500) + "b\n", 1,
			text(`"` + strings.Repeat("x", 40) + `a\n"`), text(`"` + strings.Repeat("x", 40) + `b\n"`)},
		{"in the second piece", long + "a\n", long + "b\n", 1, text("a"), text("b")},
	} {
		t.Run(row.name, func(t *testing.T) {
			d, err := firstDifference(strings.NewReader(row.a), strings.NewReader(row.b))
			if err != nil {
				t.Fatal(err)
			}
			if row.line == 0 {
				if d != nil {
					t.Errorf("a difference: %v", d)
				}
				return
			}
			if d == nil || d.Line != row.line || orEnd(d.Without) != orEnd(row.without) || orEnd(d.With) != orEnd(row.with) {
				t.Errorf("got %v", d)
			}
		})
	}
}

func FuzzFirstDifference(f *testing.F) {
	f.Add("a\nb\n", "a\nc\n")
	f.Add("", "\xff")
	f.Add("x", "x\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		d, err := firstDifference(strings.NewReader(a), strings.NewReader(b))
		if err != nil || (d == nil) != (a == b) {
			t.Fatalf("%q %q: %v, %v", a, b, d, err)
		}
		if d != nil && strings.ContainsAny(orEnd(d.Without)+orEnd(d.With), "\n\r\x1b\x00") {
			t.Errorf("not one line: %v", d)
		}
	})
}
