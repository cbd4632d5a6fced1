package main

import "slices"

// spread is a median with the quartiles around it.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

func spreadOf(v []float64) spread {
	return spread{quantile(v, 0.5), quantile(v, 0.25), quantile(v, 0.75)}
}

// quantile returns the value below which the share q of v lies, in between two
// of them by linear interpolation; 0 if there are none.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}
