package report

import (
	"fmt"
	"math"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Coverage says how much of an object is counted. Functions that were not
// selected, and addresses that are no functions (Excluded), stand outside the
// percentage.
type Coverage struct {
	Object      string         `json:"object"`
	BuildID     string         `json:"build_id"`
	Selected    bool           `json:"selected"`
	Reason      string         `json:"reason"`    // why the object was left out as a whole
	Functions   int            `json:"functions"` // found
	Counted     int            `json:"counted"`
	Percent     *float64       `json:"percent"` // of the selected functions, rounded down; null if there are none
	Tactics     map[string]int `json:"tactics"`
	Uncounted   map[string]int `json:"uncounted"` // by reason
	NotSelected int            `json:"not_selected"`
	Excluded    map[string]int `json:"excluded"`                 // by reason
	Blocks      map[string]int `json:"blocks_reasons,omitempty"` // counted functions whose blocks are not, by reason
	Code        uint64         `json:"code_bytes"`
	Untold      uint64         `json:"untold_bytes"` // of them, in no function
}

const notSelected = "not-selected"

// Coverage has one entry for each object of the tables, in their order, and
// those that were left out as a whole.
func (r *Report) Coverage() []*Coverage {
	byKey := map[[2]string]*Coverage{}
	var all []*Coverage
	object := func(path, buildID string) *Coverage {
		k := [2]string{path, buildID}
		if byKey[k] == nil {
			byKey[k] = newCoverage(path, buildID)
			all = append(all, byKey[k])
		}
		return byKey[k]
	}
	for _, p := range r.Programs {
		for i := range p.Objects {
			o := &p.Objects[i]
			c := object(symname.Clean(o.Path), symname.Clean(o.BuildID))
			c.Selected = c.Selected || o.Flags&layout.ObjSelected != 0
			c.Reason = o.Reason.String()
			c.Code, c.Untold = max(c.Code, uint64(o.Code)), max(c.Untold, uint64(o.Untold))
		}
	}
	for _, f := range r.Functions {
		object(f.Object, f.BuildID).add(f)
	}
	for _, c := range all {
		c.Percent = percent(c.Counted, c.Functions-c.NotSelected)
	}
	return all
}

// Sum adds up the coverage of several objects.
func Sum(all []*Coverage) *Coverage {
	sum := newCoverage("total", "")
	for _, c := range all {
		sum.Functions += c.Functions
		sum.Counted += c.Counted
		sum.NotSelected += c.NotSelected
		sum.Code += c.Code
		sum.Untold += c.Untold
		addAll(sum.Tactics, c.Tactics)
		addAll(sum.Uncounted, c.Uncounted)
		addAll(sum.Excluded, c.Excluded)
		addAll(sum.Blocks, c.Blocks)
	}
	sum.Percent = percent(sum.Counted, sum.Functions-sum.NotSelected)
	return sum
}

func newCoverage(path, buildID string) *Coverage {
	return &Coverage{Object: path, BuildID: buildID, Tactics: map[string]int{}, Uncounted: map[string]int{}, Excluded: map[string]int{}, Blocks: map[string]int{}}
}

func (c *Coverage) add(f *Function) {
	if f.Excluded() {
		c.Excluded[f.Reason]++
		return
	}
	c.Functions++
	switch {
	case f.Counted():
		c.Counted++
		c.Tactics[f.Tactic]++
		if f.BlocksReason != "" {
			c.Blocks[f.BlocksReason]++
		}
	case f.Reason == notSelected:
		c.NotSelected++
	default:
		c.Uncounted[f.Reason]++
	}
}

func addAll(to, from map[string]int) {
	for k, n := range from {
		to[k] += n
	}
}

// percent rounds down to two digits: 100 means all.
func percent(n, of int) *float64 {
	if of == 0 {
		return nil
	}
	p := math.Floor(float64(n)*10000/float64(of)) / 100
	return &p
}

// UntoldNote says how much of code lies in no function, "" if hardly any does:
// what hand-written assembly and older start files leave, some bytes.
func UntoldNote(untold, code uint64) string {
	const few = 16
	if untold < few {
		return ""
	}
	return fmt.Sprintf("; %s bytes of code in no function (%.2f%%)", figures.Thousands(untold), float64(untold)*100/float64(code))
}

// Percent writes n of so many as a percentage that is rounded down: 100 means
// all.
func Percent(n, of int) string {
	p := percent(n, of)
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("%.2f%%", *p)
}
