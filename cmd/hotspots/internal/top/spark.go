package top

import "math"

// bars are levels of a sparkline, from nothing to most.
var bars = [2][]string{
	{"▁", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
	{"_", ".", ":", "-", "=", "+", "*", "#", "@"},
}

// bar is the level of n where most is the highest; a blank where n is not known.
func bar(n, most float64, ascii bool) string {
	set := bars[0]
	if ascii {
		set = bars[1]
	}
	switch {
	case n < 0:
		return " "
	case n == 0 || most <= 0:
		return set[0]
	}
	return set[max(1, min(len(set)-1, int(math.Ceil(n/most*float64(len(set)-1)))))]
}
