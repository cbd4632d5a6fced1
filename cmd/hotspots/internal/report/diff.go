package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/match"
	"github.com/dynprof/dynprof/internal/table"
)

// Change is a function with its calls in two tables.
type Change struct {
	Object      string   `json:"object"`
	BuildID     string   `json:"build_id"` // of the later table, if it has the function
	Address     Address  `json:"address"`  // as well
	Name        string   `json:"name"`
	NameBefore  string   `json:"name_before"` // in the earlier; empty if it has not the function
	Aliases     []string `json:"aliases"`
	Match       match.By `json:"match"` // how it was found in the other; match.New or match.Gone if it was not
	Before      uint64   `json:"calls_before"`
	After       uint64   `json:"calls_after"`
	Delta       int64    `json:"delta"`        // After - Before
	ShareBefore float64  `json:"share_before"` // of all calls
	ShareAfter  float64  `json:"share_after"`

	// CPU time of the function itself; nil where none was sampled.
	TimeBefore *SelfTime `json:"time_before,omitempty"`
	TimeAfter  *SelfTime `json:"time_after,omitempty"`
}

// Diff is the functions of two tables. What was counted before a reset counts,
// too, if both are of one program: else the calls since.
type Diff struct {
	Before, After Program
	Delta         int64
	Functions     []*Change

	// Unread are objects whose functions without names were called and could not be
	// compared, as their files are not there: a line each.
	Unread []string
}

// NewDiff compares two tables. files has paths of objects by build ID, of which the tables
// may have others.
func NewDiff(before, after *table.Table, files map[string]string, opt Options) (*Diff, error) {
	opt.beforeReset = before.Nonce == after.Nonce
	d := &Diff{}
	var both [2]*Report
	for i, t := range []*table.Table{before, after} {
		r, err := New([]*table.Table{t}, opt)
		if err != nil {
			return nil, err
		}
		r.WithTimes().KeepFunctions()
		both[i] = r
	}
	d.Before, d.After = both[0].Program, both[1].Program
	d.Delta = int64(d.After.TotalCalls - d.Before.TotalCalls)
	p := pairing{diff: d, files: files, since: [2]time.Time{before.Realtime, after.Realtime}}
	p.add(both)
	for _, c := range d.Functions {
		c.Delta = int64(c.After - c.Before)
		c.ShareBefore, c.ShareAfter = portion(c.Before, d.Before.TotalCalls), portion(c.After, d.After.TotalCalls)
	}
	return d, nil
}

func portion(part, all uint64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// Keep leaves the functions whose name or alias matches.
func (d *Diff) Keep(re *regexp.Regexp) {
	d.Functions = slices.DeleteFunc(d.Functions, func(c *Change) bool {
		return !re.MatchString(c.Name) && !slices.ContainsFunc(c.Aliases, re.MatchString)
	})
}

// DiffOrders are the words of --sort.
var DiffOrders = []string{"delta", "before", "after", "name", "time"}

// Sort orders the functions: those that differ most first, whether they have
// more calls or time or less, or those with most calls, or by name.
func (d *Diff) Sort(order string) {
	slices.SortFunc(d.Functions, func(a, b *Change) int {
		var first int
		switch order {
		case "delta":
			first = cmp.Or(cmp.Compare(size(b.Delta), size(a.Delta)), cmp.Compare(b.After, a.After))
		case "before":
			first = cmp.Compare(b.Before, a.Before)
		case "after":
			first = cmp.Compare(b.After, a.After)
		case "time":
			first = cmp.Compare(size(b.timeDelta()), size(a.timeDelta()))
		}
		return cmp.Or(first, strings.Compare(a.Name, b.Name), strings.Compare(a.Object, b.Object), cmp.Compare(a.Address, b.Address))
	})
}

func size(n int64) uint64 {
	if n < 0 {
		return uint64(-n)
	}
	return uint64(n)
}

// Top leaves the first n functions; 0 leaves all.
func (d *Diff) Top(n int) {
	if n > 0 && n < len(d.Functions) {
		d.Functions = d.Functions[:n]
	}
}

// Text writes the functions that differ: calls before, after, the difference,
// its share of what was before, object, name.
func (d *Diff) Text(w io.Writer, style Style) error {
	for _, side := range []struct {
		word string
		p    Program
	}{{"before", d.Before}, {"after", d.After}} {
		r := Report{Program: side.p, Programs: []Program{side.p}}
		if _, err := fmt.Fprintf(w, "%-7s %s\n", side.word+":", r.Headline()); err != nil {
			return err
		}
	}
	columns := "BEFORE\tAFTER\tDELTA\tCHANGE\tSHARE\tPOINTS"
	if d.HasTime() {
		columns += "\tTIME\tNOW\tDELTA"
	}
	t := newText(columns, "OBJECT", "FUNCTION")
	for _, c := range d.Functions {
		if c.Delta == 0 && !(d.HasTime() && c.timeDiffers()) {
			continue
		}
		numbers := fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%+.2f", figures.Thousands(c.Before), figures.Thousands(c.After), signed(c.Delta), c.Rise(),
			figures.Share(c.After, d.After.TotalCalls), 100*(c.ShareAfter-c.ShareBefore))
		if d.HasTime() {
			numbers += "\t" + c.times()
		}
		t.row(numbers, filepath.Base(c.Object), c.Name+c.was())
	}
	return t.write(w, style)
}

// was says that a function has had another name, or that it is a guess which one it was.
func (c *Change) was() string {
	var notes []string
	if c.NameBefore != "" && c.NameBefore != c.Name {
		notes = append(notes, "was "+c.NameBefore)
	}
	if c.Match == match.BySimilar {
		notes = append(notes, "similar")
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, ", ") + ")"
}

func signed(n int64) string {
	if n < 0 {
		return "-" + figures.Thousands(size(n))
	}
	return "+" + figures.Thousands(size(n))
}

// Rise is the difference in per cent of what was before, or a word where there is no such.
func (c *Change) Rise() string {
	switch {
	case c.Before == 0 && c.After == 0:
		return "-"
	case c.Match == match.New, c.Match == match.Gone:
		return string(c.Match)
	case c.Before == 0:
		return "from 0"
	}
	return fmt.Sprintf("%+.1f%%", float64(c.Delta)/float64(c.Before)*100)
}

// JSON writes the functions.
func (d *Diff) JSON(w io.Writer) error {
	return WriteJSON(w, struct {
		Schema int     `json:"schema"`
		Before Program `json:"before"`
		After  Program `json:"after"`
		Delta  int64   `json:"delta"`
	}{Schema, d.Before, d.After, d.Delta}, "functions", d.Functions)
}

// CSV writes the functions; aliases are separated by semicolons.
func (d *Diff) CSV(w io.Writer) error {
	rows := [][]string{{"object", "build_id", "address", "name", "aliases", "calls_before", "calls_after", "delta", "name_before", "match", "share_before", "share_after"}}
	if d.HasTime() {
		rows[0] = append(rows[0], "self_ns_before", "self_ns_low_before", "self_ns_high_before", "self_ns_after", "self_ns_low_after", "self_ns_high_after")
	}
	for _, c := range d.Functions {
		row := []string{
			c.Object, c.BuildID, c.Address.String(), c.Name, strings.Join(c.Aliases, ";"),
			strconv.FormatUint(c.Before, 10), strconv.FormatUint(c.After, 10), strconv.FormatInt(c.Delta, 10),
			c.NameBefore, string(c.Match), strconv.FormatFloat(c.ShareBefore, 'g', 6, 64), strconv.FormatFloat(c.ShareAfter, 'g', 6, 64),
		}
		if d.HasTime() {
			row = append(append(row, c.TimeBefore.fields()...), c.TimeAfter.fields()...)
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// Differs reports whether any calls do.
func (d *Diff) Differs() bool {
	return slices.ContainsFunc(d.Functions, func(c *Change) bool { return c.Delta != 0 })
}
