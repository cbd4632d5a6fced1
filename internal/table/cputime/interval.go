package cputime

import "math"

// z is the quantile of the normal distribution for an interval of 95 %.
const z = 1.959963984540054

// Interval is the share that k of n samples tell of, from low to high with 95 % confidence:
// Wilson's score interval for a binomial proportion (E. B. Wilson, JASA 22, 1927, 209-212;
// Brown, Cai, DasGupta, "Interval Estimation for a Binomial Proportion", Statistical Science
// 16, 2001, recommend it). It holds for few samples, and for none, too. Samples are taken to
// hit functions independently: they come each period of CPU time, and a program whose work
// goes in step with that is told wrongly, whatever the interval says.
func Interval(k, n uint64) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	N := float64(n)
	p := float64(min(k, n)) / N
	middle := p + z*z/(2*N)
	half := z * math.Sqrt(p*(1-p)/N+z*z/(4*N*N))
	scale := 1 + z*z/N
	low, high = max(0, (middle-half)/scale), min(1, (middle+half)/scale)
	return min(low, p), max(high, p) // rounded, at 0 and 1
}
