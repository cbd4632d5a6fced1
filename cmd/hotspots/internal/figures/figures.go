// Package figures writes numbers as people read them.
package figures

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Thousands writes 1234567 as 1,234,567.
func Thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count is a number of things: 1 call, 1,234 calls.
func Count(n uint64, thing string) string {
	if n != 1 {
		if strings.HasSuffix(thing, "s") {
			thing += "e"
		}
		thing += "s"
	}
	return Thousands(n) + " " + thing
}

// Share is a number in percent of another.
func Share(n, of uint64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", float64(n)/float64(of)*100)
}

// Short writes a number with three digits, and a letter for thousands, millions and so on.
func Short(n float64) string {
	if n < 999.5 {
		if n > 0 && n < 9.95 && n != math.Trunc(n) {
			return strconv.FormatFloat(n, 'f', 1, 64)
		}
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	for _, unit := range "kMGTPE" {
		n /= 1000
		switch {
		case n < 9.995:
			return fmt.Sprintf("%.2f%c", n, unit)
		case n < 99.95:
			return fmt.Sprintf("%.1f%c", n, unit)
		case n < 999.5:
			return fmt.Sprintf("%.0f%c", n, unit)
		}
	}
	return "lots"
}

// Clock writes a length of time as 1:02:03.
func Clock(d time.Duration) string {
	s := int(max(d, 0).Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// Nanoseconds writes a length of time with three digits and its unit.
func Nanoseconds(ns float64) string {
	for _, unit := range []string{"ns", "us", "ms"} {
		if ns < 999.5 {
			return digits(ns) + " " + unit
		}
		ns /= 1000
	}
	return digits(ns) + " s"
}

// digits writes three digits, or all that are in front of the point.
func digits(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 9.995:
		return strconv.FormatFloat(n, 'f', 2, 64)
	case n < 99.95:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}
