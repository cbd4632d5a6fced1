// Package export writes count tables as files of other tools.
package export

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
)

// counts is what of a table is exported.
type counts struct {
	t    *table.Table
	s    *table.Snapshot
	flow *table.Flow // nil: blocks are not counted

	times *report.Times // nil: CPU time was not sampled
}

func read(t *table.Table) (*counts, error) {
	s, err := t.SinceReset()
	if err != nil {
		return nil, err
	}
	flow, err := t.Flow(s)
	if err != nil {
		return nil, err
	}
	times, err := report.TimesOf(t)
	if err != nil {
		return nil, err
	}
	return &counts{t, s, flow, times}, nil
}

// ran are the functions that ran, by object and address. Those that nobody has called, too:
// who jumps into the middle of a function runs it, and those that are not counted, but were
// found in a sample.
func (c *counts) ran() []int {
	inside := map[uint32]bool{}
	if c.flow != nil {
		for i := range c.flow.Blocks {
			b := &c.flow.Blocks[i]
			inside[b.Function] = inside[b.Function] || b.Runs > 0
		}
	}
	order := make([]int, 0, len(c.t.Functions))
	for i := range c.t.Functions {
		if c.s.Calls[i] > 0 || inside[uint32(i)] || c.times.Nanoseconds(i) > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &c.t.Functions[i], &c.t.Functions[j]
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Address, b.Address))
	})
	return order
}

// executed is how many instructions function i has executed; false if that is not known.
func (c *counts) executed(i int) (n uint64, ok bool) {
	blocks := c.flow.Of(uint32(i)).Blocks
	for k := range blocks {
		n += blocks[k].Executed()
	}
	seen, some := c.flow.Observed(uint32(i))
	return n, len(blocks) > 0 && !(some && seen == 0 && n == 0)
}

// beside is a function in no ledger, with its CPU time, ns.
type beside struct {
	object, name string
	address, ns  uint64
}

// others are those.
func (c *counts) others(mangled bool) (all []beside) {
	if c.times == nil {
		return nil
	}
	for i := range c.times.Rest {
		r := &c.times.Rest[i]
		name := symname.Display(r.Name, r.Object, r.Address, !mangled)
		if r.Size == 0 && r.Name == "" {
			name = report.NoFunction
		}
		all = append(all, beside{r.Object, name, r.Address, c.times.Duration(r.Samples)})
	}
	return all
}

// oneLine is a name without what would end it.
func oneLine(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return '?'
		}
		return r
	}, name)
}
