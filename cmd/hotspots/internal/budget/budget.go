// Package budget judges whether functions are called more than they may be.
package budget

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/match"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
)

// Names in a budget that are of no function.
const (
	total = "@total" // all calls
	added = "@new"   // each function that only the later table has
)

// Budget is limits of calls.
type Budget struct {
	rules []rule
}

type rule struct {
	name  string
	re    *regexp.Regexp // of names that it matches; nil of @total and @new
	limit limit
	where string // file and line, or empty
	used  bool
}

// All sets a limit of each function that both tables have, and of all calls.
func (b *Budget) All(text string) error {
	l, err := parseLimit(text)
	if err != nil {
		return err
	}
	b.rules = append(b.rules, rule{name: "*", re: symname.Glob("*"), limit: l, used: true}, rule{name: total, limit: l})
	return nil
}

// longest is a line of a budget: names of C++ may be long.
const longest = 1 << 20

// Read reads the lines of a file: NAME=LIMIT, empty, or beginning with #.
func (b *Budget) Read(file string, r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longest)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		where := fmt.Sprintf("%s:%d", file, n)
		at := strings.LastIndexByte(line, '=') // names of operators have some
		if at <= 0 {
			return fmt.Errorf("%s: %q is not NAME=LIMIT", where, line)
		}
		name := strings.TrimSpace(line[:at])
		l, err := parseLimit(strings.TrimSpace(line[at+1:]))
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		one := rule{name: name, limit: l, where: where}
		switch {
		case name == total || name == added:
		case name == "" || name[0] == '@':
			return fmt.Errorf("%s: %q is neither a function nor %s or %s", where, name, total, added)
		default:
			one.re = symname.Glob(name)
		}
		b.rules = append(b.rules, one)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// Judge says which limits are broken, a line each, and which rules are of functions that
// neither table has.
func (b *Budget) Judge(d *report.Diff) (broken, unused []string) {
	if r := b.last(func(r *rule) bool { return r.name == total }); r != nil {
		if why := r.judge(d.Before.TotalCalls, d.After.TotalCalls); why != "" {
			broken = append(broken, "all calls: "+why)
		}
	}
	var over []*report.Change
	why := map[*report.Change]string{}
	for _, c := range d.Functions {
		if r := b.of(c); r != nil {
			if why[c] = r.judge(c.Before, c.After); why[c] != "" {
				over = append(over, c)
			}
		}
	}
	slices.SortStableFunc(over, func(a, b *report.Change) int { return cmp.Compare(b.Delta, a.Delta) })
	for _, c := range over {
		broken = append(broken, c.Name+": "+why[c])
	}
	for _, r := range b.rules {
		if r.re != nil && !r.used && r.name != "*" {
			unused = append(unused, r.where+": "+r.name)
		}
	}
	return broken, unused
}

// last is the last rule that is asked for; nil if there is none.
func (b *Budget) last(is func(*rule) bool) *rule {
	for i := len(b.rules) - 1; i >= 0; i-- {
		if is(&b.rules[i]) {
			return &b.rules[i]
		}
	}
	return nil
}

// of is the rule of a function: the last one that matches. What only the later table has is
// not judged by how much it has risen, unless by @new or a limit of its own.
func (b *Budget) of(c *report.Change) (found *rule) {
	for i := range b.rules {
		r := &b.rules[i]
		switch {
		case r.re != nil && (r.re.MatchString(c.Name) || slices.ContainsFunc(c.Aliases, r.re.MatchString)):
			r.used = true
			if c.Match != match.New || r.limit.absolute {
				found = r
			}
		case r.name == added && c.Match == match.New:
			found = r
		}
	}
	return found
}

// judge says why a limit is broken; empty if it is not.
func (r *rule) judge(before, after uint64) string {
	may := r.limit.of(before)
	if after <= may {
		return ""
	}
	text := fmt.Sprintf("%s calls, %s before: %s more than the %s that are allowed (%s", figures.Thousands(after), figures.Thousands(before),
		figures.Thousands(after-may), figures.Thousands(may), r.limit.text)
	if r.where != "" {
		text += ", " + r.where
	}
	return text + ")"
}

// limit is how many calls there may be.
type limit struct {
	text     string
	none     bool   // any number
	absolute bool   // most, whatever there were before
	millis   uint64 // of what there were, in 1/100,000: thousandths of a per cent
	most     uint64 // besides
}

// parseLimit reads P%, +N, P%+N, N, or any.
func parseLimit(text string) (l limit, err error) {
	l.text = text
	wrong := fmt.Errorf("%q is no limit: write 10%%, +1000, 10%%+1000, 500 or any", text)
	if text == "any" {
		l.none = true
		return l, nil
	}
	percent, rest, relative := strings.Cut(text, "%")
	if relative {
		f, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(f >= 0 && f <= 1e9) {
			return l, wrong
		}
		l.millis = uint64(math.Round(f * 1000))
		if rest == "" {
			return l, nil
		}
		text = rest
	}
	number, plus := strings.CutPrefix(text, "+")
	if l.most, err = strconv.ParseUint(number, 10, 64); err != nil || relative && !plus {
		return l, wrong
	}
	l.absolute = !plus
	return l, nil
}

// of is how many there may be, if there were so many.
func (l *limit) of(before uint64) uint64 {
	switch {
	case l.none:
		return math.MaxUint64
	case l.absolute:
		return l.most
	}
	const whole = 100_000
	high, low := bits.Mul64(before, l.millis)
	if high >= whole {
		return math.MaxUint64
	}
	rise, _ := bits.Div64(high, low, whole)
	return saturated(saturated(before, rise), l.most)
}

func saturated(a, b uint64) uint64 {
	if sum, carry := bits.Add64(a, b, 0); carry == 0 {
		return sum
	}
	return math.MaxUint64
}
