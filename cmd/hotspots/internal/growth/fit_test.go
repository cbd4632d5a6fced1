package growth

import (
	"math"
	"math/rand/v2"
	"testing"
)

var decades = []float64{1e3, 1e4, 1e5}

func counts(sizes []float64, f func(n float64) float64) (list []float64) {
	for _, n := range sizes {
		list = append(list, math.Round(f(n)))
	}
	return list
}

// TestFits: counts that grow as a model says are told to, whatever the factor, with an
// offset, with terms that matter less, and where they are off by some per cent.
func TestFits(t *testing.T) {
	log := math.Log2
	for _, row := range []struct {
		name, want string
		f          func(n float64) float64
	}{
		{"constant", "1", func(float64) float64 { return 7 }},
		{"none but for one", "1", func(n float64) float64 { return 1e6 + n/1e5 }},
		{"falls", "1", func(n float64) float64 { return 1e6 / n }},
		{"log", "log n", func(n float64) float64 { return 1 + 40*log(n) }},
		{"linear", "n", func(n float64) float64 { return n }},
		{"linear, less than the start", "n", func(n float64) float64 { return 5000 + 2*n }},
		{"per page", "n", func(n float64) float64 { return n / 100 }},
		{"merge sort", "n log n", func(n float64) float64 { return n*math.Ceil(log(n)) - math.Exp2(math.Ceil(log(n))) + 1 }},
		{"heap sort", "n log n", func(n float64) float64 { return 2*n*log(n) - 3*n + 100 }},
		{"pairs", "n^2", func(n float64) float64 { return n * (n - 1) / 2 }},
		{"square and more", "n^2", func(n float64) float64 { return n*n + 30*n + 1000 }},
		{"cube", "n^3", func(n float64) float64 { return n * n * n / 6 }},
	} {
		for _, sizes := range [][]float64{decades, {100, 200, 400}, {10, 20, 50, 100, 1000}, {1e3, 1e3, 1e4, 1e5}} {
			if row.name == "per page" || row.name == "merge sort" || row.name == "linear, less than the start" || row.name == "log" || row.name == "square and more" {
				sizes = decades // rounding, or the other term, is much of smaller ones
			}
			if got := fits(sizes, counts(sizes, row.f)); got[0].Model != row.want {
				t.Errorf("%s at %v: %+v", row.name, sizes, got)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for number, m := range Models[1:] {
		for range 100 {
			sizes := []float64{1e3, 3e3, 1e4, 3e4, 1e5}
			got := fits(sizes, counts(sizes, func(n float64) float64 { return 50 * m.shape(n) * (0.98 + 0.04*r.Float64()) }))
			if got[0].number != number+1 {
				t.Fatalf("%s: %+v", m.Name, got)
			}
		}
	}
}

func TestLinear(t *testing.T) {
	if Models[linear].Name != "n" {
		t.Error(Models[linear].Name)
	}
}

func TestPower(t *testing.T) {
	for _, row := range []struct {
		counts         []float64
		exponent, fail float64
		ok             bool
	}{
		{[]float64{1e3, 1e4, 1e5}, 1, 0, true},
		{[]float64{2e6, 2e8, 2e10}, 2, 0, true},
		{[]float64{5, 5, 5}, 0, 0, true},
		{[]float64{9, 3, 1}, -math.Log10(3), 0, true},
		// By hand: logarithms 0, 1, 3 at 3, 4, 5; slope 1.5, off by 1/6, -1/3, 1/6.
		{[]float64{1, 10, 1000}, 1.5, math.Sqrt(1.0/6) / math.Sqrt2, true},
		{[]float64{0, 10, 1000}, 0, 0, false},
	} {
		got, ok := power(decades, row.counts)
		if ok != row.ok || math.Abs(got.Exponent-row.exponent) > 1e-9 || math.Abs(got.Error-row.fail) > 1e-9 {
			t.Errorf("%v: %+v, %v", row.counts, got, ok)
		}
	}
}
