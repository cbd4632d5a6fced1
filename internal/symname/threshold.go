package symname

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// MaxThreshold is the largest threshold: a stub compares its counter with a
// sign-extended 32-bit immediate.
const MaxThreshold = math.MaxInt32

// Thresholds says at how many calls a function is hot.
type Thresholds struct {
	All   uint32 // of functions that no rule names; 0 is never
	rules []threshold
}

type threshold struct {
	re    *regexp.Regexp
	calls uint32
}

// ParseThresholds reads what --threshold was given, joined by semicolons: N, or
// NAME=N for functions whose displayed name the glob NAME matches as a whole: *
// stands for any text and ? for one character. Where several match the last
// counts. N is 0, for never, to MaxThreshold.
func ParseThresholds(arg string) (*Thresholds, error) {
	t := &Thresholds{}
	for one := range strings.SplitSeq(arg, ";") {
		at := strings.LastIndexByte(one, '=') // names of operators have some
		n, err := strconv.ParseUint(one[at+1:], 10, 64)
		if err != nil || n > MaxThreshold || at == 0 {
			return nil, fmt.Errorf("%q is not a number of calls from 1 to %d, or NAME=N", one, MaxThreshold)
		}
		if at < 0 {
			t.All = uint32(n)
			continue
		}
		t.rules = append(t.rules, threshold{Glob(one[:at]), uint32(n)})
	}
	return t, nil
}

// Glob matches displayed names as a whole: * stands for any text, ? for one character. What
// cannot be in a displayed name is replaced as there.
func Glob(pattern string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^" + ofGlob(pattern) + "$")
}

// Any reports whether some function may have a threshold.
func (t *Thresholds) Any() bool {
	for _, r := range t.rules {
		if r.calls > 0 {
			return true
		}
	}
	return t.All > 0
}

// Same reports whether all functions have the same threshold.
func (t *Thresholds) Same() bool { return len(t.rules) == 0 }

// Of is the threshold of a function by its displayed name.
func (t *Thresholds) Of(name string) uint32 {
	for i := len(t.rules) - 1; i >= 0; i-- {
		if t.rules[i].re.MatchString(name) {
			return t.rules[i].calls
		}
	}
	return t.All
}
