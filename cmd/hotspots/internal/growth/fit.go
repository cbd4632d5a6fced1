package growth

import (
	"math"
	"slices"
)

// Model is a way in which a count may grow with the size n of the input: as offset + factor
// times its shape.
type Model struct {
	Name  string
	shape func(n float64) float64
}

// Models are those that are tried, the slowest first.
var Models = []Model{
	{"1", nil},
	{"log n", math.Log},
	{"n", func(n float64) float64 { return n }},
	{"n log n", func(n float64) float64 { return n * math.Log(n) }},
	{"n^2", func(n float64) float64 { return n * n }},
	{"n^3", func(n float64) float64 { return n * n * n }},
}

// linear is the number of the model n: those behind it grow faster than the input.
const linear = 2

// Fit is a model with its parameters.
type Fit struct {
	Model  string  `json:"model"`
	Offset float64 `json:"offset"`
	Factor float64 `json:"factor"` // of the model's shape; 0 for the model 1
	Error  float64 `json:"error"`  // root mean square of what it is off, as a part of each count
	AIC    float64 `json:"aic"`

	number int // in Models
}

// at is what the fit says of a size.
func (f *Fit) at(n float64) float64 {
	if shape := Models[f.number].shape; shape != nil {
		return f.Offset + f.Factor*shape(n)
	}
	return f.Offset
}

// What a count may be off without a model being the worse for it: growth by a ten-thousandth
// of it is none, and half a call is lost where calls are whole.
const (
	negligible = 1e-4
	rounding   = 0.5
)

// fits are the models that fit counts which grow with sizes, or do not; the best first, by
// Akaike's information criterion, N ln(mean square error) + 2k, with k parameters, the error
// among them (H. Akaike, "A new look at the statistical model identification", 1974). They
// are those of least squares of what each is off as a part of its count: else the largest
// size alone would decide. Sizes are 1 or more, and there are two different ones at least.
func fits(sizes, counts []float64) (list []Fit) {
	n := float64(len(sizes))
	weights := make([]float64, len(counts))
	least := negligible * negligible
	for i, y := range counts {
		weights[i] = 1 / (max(y, 1) * max(y, 1))
		least += rounding * rounding * weights[i] / n
	}
	for number, m := range Models {
		f := Fit{Model: m.Name, number: number}
		parameters := 2.0
		if m.shape == nil {
			f.Offset = mean(counts, weights)
		} else {
			shapes := make([]float64, len(sizes))
			for i, n := range sizes {
				shapes[i] = m.shape(n)
			}
			f.Offset, f.Factor, _ = line(shapes, counts, weights)
			parameters = 3
			if !(f.Factor > 0) { // it does not grow, or there is no telling
				continue
			}
		}
		square := 0.0
		for i, y := range counts {
			off := (y - f.at(sizes[i])) / max(y, 1)
			square += off * off
		}
		f.Error = math.Sqrt(square / n)
		f.AIC = n*math.Log(square/n+least) + 2*parameters
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b Fit) int {
		switch {
		case a.AIC < b.AIC:
			return -1
		case a.AIC > b.AIC:
			return 1
		}
		return 0
	})
	return list
}

// Power is the exponent of a power law, with its standard error.
type Power struct{ Exponent, Error float64 }

// power is the slope of the line through logarithms of sizes and counts, by least squares;
// false if fewer than three counts are not 0.
func power(sizes, counts []float64) (p Power, ok bool) {
	const least = 3
	var x, y []float64
	for i, n := range counts {
		if n > 0 {
			x, y = append(x, math.Log(sizes[i])), append(y, math.Log(n))
		}
	}
	if len(x) < least || slices.Max(x) == slices.Min(x) {
		return p, false
	}
	weights := make([]float64, len(x))
	for i := range weights {
		weights[i] = 1
	}
	offset, slope, spread := line(x, y, weights)
	off := 0.0
	for i := range x {
		r := y[i] - offset - slope*x[i]
		off += r * r
	}
	return Power{slope, math.Sqrt(off / float64(len(x)-2) / spread)}, true
}

// line is the one of weighted least squares, with the weighted sum of squares of how far
// each x is from their mean.
func line(x, y, weights []float64) (offset, slope, spread float64) {
	mx, my := mean(x, weights), mean(y, weights)
	both := 0.0
	for i, w := range weights {
		spread += w * (x[i] - mx) * (x[i] - mx)
		both += w * (x[i] - mx) * (y[i] - my)
	}
	slope = both / spread
	return my - slope*mx, slope, spread
}

func mean(list, weights []float64) float64 {
	var sum, all float64
	for i, w := range weights {
		sum += w * list[i]
		all += w
	}
	return sum / all
}
