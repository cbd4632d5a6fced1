package selection

import (
	"fmt"
	"strings"
)

// longest is how long a name may be to be compared letter by letter.
const longest = 128

// didYouMean names what is most like a name; empty if nothing is.
func didYouMean(name string, names []string) string {
	if best := similar(name, names); best != "" {
		return fmt.Sprintf("; did you mean %s?", best)
	}
	return ""
}

// similar finds the name that differs least, in at most a third of its letters, or the
// shortest that has it as a part; capitals are as good as small letters. A C++ name is
// compared without its scope and parameters, too.
func similar(name string, names []string) (best string) {
	name = strings.ToLower(strings.Trim(name, "*? "))
	if name == "" || len(name) > longest {
		return ""
	}
	least := (len(name) + 2) / 3
	for _, n := range names {
		low := strings.ToLower(n)
		for _, form := range []string{low, bare(low)} {
			d := distance(name, form, least)
			if len(name) > 2 && strings.Contains(form, name) {
				d = min(d, 1)
			}
			if d < least || d == least && (best == "" || len(n) < len(best)) {
				best, least = n, d
			}
		}
	}
	return best
}

// bare is a C++ name without scope and parameters.
func bare(name string) string {
	name, _, _ = strings.Cut(name, "(")
	return name[strings.LastIndexByte(name, ':')+1:]
}

// distance is how many letters are to be put in, taken out, replaced, or exchanged with
// the next one to make a of b (optimal string alignment); more than bound is too many.
func distance(a, b string, bound int) int {
	if len(a)-len(b) > bound || len(b)-len(a) > bound {
		return bound + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			d := min(last[j+1], row[j]) + 1
			if a[i] == b[j] {
				d = min(d, last[j])
			} else {
				d = min(d, last[j]+1)
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
			least = min(least, d)
		}
		if least > bound {
			return bound + 1
		}
	}
	return row[len(b)]
}
