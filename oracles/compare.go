package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// difference is a test whose outcome is not the same with the library.
type difference struct {
	unit, test    string
	without, with string // outcomes; "(none)" if the test did not run
}

const none = "(none)"

// compare returns the tests that are not the same.
func compare(unit string, without, with results) []difference {
	names := maps.Clone(without)
	maps.Copy(names, with)
	var all []difference
	for _, test := range slices.Sorted(maps.Keys(names)) {
		a, ok := without[test]
		if !ok {
			a = none
		}
		b, ok := with[test]
		if !ok {
			b = none
		}
		if a != b {
			all = append(all, difference{unit, test, a, b})
		}
	}
	return all
}

// rounds holds the outcomes of one test in several runs.
type rounds struct{ without, with []string }

// unsteady reports whether the outcome changes without the library, too: then
// nothing can be said of the library.
func (r rounds) unsteady() bool {
	return slices.ContainsFunc(r.without, func(s string) bool { return s != r.without[0] })
}

func (r rounds) String() string {
	return fmt.Sprintf("without %s, with %s", shown(r.without), shown(r.with))
}

// shown are outcomes, counted, in the order in which they came.
func shown(outcomes []string) string {
	var kinds []string
	count := map[string]int{}
	for _, o := range outcomes {
		if count[o]++; count[o] == 1 {
			kinds = append(kinds, o)
		}
	}
	for i, k := range kinds {
		kinds[i] = fmt.Sprintf("%q", shorten(k))
		if len(outcomes) > 1 {
			kinds[i] += fmt.Sprintf(" x%d", count[k])
		}
	}
	return strings.Join(kinds, ", ")
}

const mostShown = 160 // bytes of an outcome

func shorten(s string) string {
	if len(s) <= mostShown {
		return s
	}
	return s[:mostShown] + "..."
}

// firstDifference cuts two long texts down to their first line that differs.
func firstDifference(a, b string) (string, string) {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		p, q := none, none
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return fmt.Sprintf("line %d: %s", i+1, p), fmt.Sprintf("line %d: %s", i+1, q)
		}
	}
	return a, b
}
