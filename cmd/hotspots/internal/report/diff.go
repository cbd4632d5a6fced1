package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"hash/fnv"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Change is a function with its calls in two tables.
type Change struct {
	Object  string   `json:"object"`
	BuildID string   `json:"build_id"` // of the later table, if it has the function
	Address Address  `json:"address"`  // as well
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	Before  uint64   `json:"calls_before"`
	After   uint64   `json:"calls_after"`
	Delta   int64    `json:"delta"` // After - Before

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
}

// NewDiff compares two tables.
func NewDiff(before, after *table.Table, opt Options) (*Diff, error) {
	opt.beforeReset = before.Nonce == after.Nonce
	d := &Diff{}
	builds := builds(before, after)
	changes := map[changeKey]*Change{}
	for i, t := range []*table.Table{before, after} {
		r, err := New([]*table.Table{t}, opt)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			d.Before = r.Program
		} else {
			d.After = r.Program
		}
		objects := map[string]string{} // by path
		for k := range t.Objects {
			objects[symname.Clean(t.Objects[k].Path)] = objectKey(&t.Objects[k])
		}
		for _, f := range r.WithTimes().Functions {
			if tookNothing(f) {
				continue
			}
			object, known := objects[f.Object]
			if !known { // in no ledger
				object = f.Object
			}
			key := changeKey{object, f.BuildID, "", f.Address}
			if len(builds[object]) > 1 && f.entry.Name != "" {
				key = changeKey{object: object, name: f.entry.Name}
			}
			c := changes[key]
			if c == nil {
				c = &Change{}
				changes[key] = c
				d.Functions = append(d.Functions, c)
			}
			c.add(f, i == 0)
		}
	}
	d.Delta = int64(d.After.TotalCalls - d.Before.TotalCalls)
	return d, nil
}

// changeKey is what a function is known by: its address in that build, or its
// name where there are several builds.
type changeKey struct {
	object, buildID, name string
	address               Address
}

// objectKey is what an object is known by: an executable is compared with the
// other's, whatever they are called.
func objectKey(o *layout.Object) string {
	if o.Flags&layout.ObjMain != 0 {
		return ""
	}
	return o.Path
}

// builds lists the builds that each object has: build IDs or, where there is none, what
// functions it has.
func builds(tables ...*table.Table) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, t := range tables {
		unnamed := sums(t)
		for i := range t.Objects {
			object := objectKey(&t.Objects[i])
			if all[object] == nil {
				all[object] = map[string]bool{}
			}
			all[object][cmp.Or(t.Objects[i].BuildID, fmt.Sprint(unnamed[i]))] = true
		}
	}
	return all
}

// sums has for each object of t that has no build ID the sum of its functions.
func sums(t *table.Table) []uint64 {
	all := make([]uint64, len(t.Objects))
	for i := range t.Functions {
		f := &t.Functions[i]
		if t.Objects[f.Object].BuildID != "" {
			continue
		}
		h := fnv.New64a()
		fmt.Fprintf(h, "%x %x %s", f.Address, f.Size, f.Name)
		all[f.Object] += h.Sum64()
	}
	return all
}

// add adds a function of one of the tables; several of a name are one.
func (c *Change) add(f *Function, before bool) {
	if before {
		c.Before += f.Calls
		c.TimeBefore = c.TimeBefore.plus(f.SelfTime)
	} else {
		c.After += f.Calls
		c.TimeAfter = c.TimeAfter.plus(f.SelfTime)
	}
	c.Object, c.BuildID, c.Address, c.Name, c.Aliases = f.Object, f.BuildID, f.Address, f.Name, f.Aliases
	c.Delta = int64(c.After - c.Before)
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
	columns := "BEFORE\tAFTER\tDELTA\tCHANGE"
	if d.HasTime() {
		columns += "\tTIME\tNOW\tDELTA"
	}
	t := newText(columns, "OBJECT", "FUNCTION")
	for _, c := range d.Functions {
		if c.Delta == 0 && !(d.HasTime() && c.timeDiffers()) {
			continue
		}
		numbers := fmt.Sprintf("%s\t%s\t%s\t%s", figures.Thousands(c.Before), figures.Thousands(c.After), signed(c.Delta), change(c))
		if d.HasTime() {
			numbers += "\t" + c.times()
		}
		t.row(numbers, filepath.Base(c.Object), c.Name)
	}
	return t.write(w, style)
}

func signed(n int64) string {
	if n < 0 {
		return "-" + figures.Thousands(size(n))
	}
	return "+" + figures.Thousands(size(n))
}

// change is the difference in per cent of what was before.
func change(c *Change) string {
	switch {
	case c.Before == 0 && c.After == 0:
		return "-"
	case c.Before == 0:
		return "new"
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
	rows := [][]string{{"object", "build_id", "address", "name", "aliases", "calls_before", "calls_after", "delta"}}
	if d.HasTime() {
		rows[0] = append(rows[0], "self_ns_before", "self_ns_low_before", "self_ns_high_before", "self_ns_after", "self_ns_low_after", "self_ns_high_after")
	}
	for _, c := range d.Functions {
		row := []string{
			c.Object, c.BuildID, c.Address.String(), c.Name, strings.Join(c.Aliases, ";"),
			strconv.FormatUint(c.Before, 10), strconv.FormatUint(c.After, 10), strconv.FormatInt(c.Delta, 10),
		}
		if d.HasTime() {
			row = append(append(row, c.TimeBefore.fields()...), c.TimeAfter.fields()...)
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}
