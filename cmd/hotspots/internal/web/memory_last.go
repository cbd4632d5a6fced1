package web

import (
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	pages "github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// mostLasts is how many instructions are told that have touched a row last.
const mostLasts = 4

// last is instructions that have read, or written, some pages last, those of most first.
type last struct {
	Codes []heat.Toucher `json:"codes"`
	More  int            `json:"more"`
}

// lasts are those of a row; nil where that was not noted, or nobody has.
func (y *symbols) lasts(p *program, list []pages.ByLast, of pages.Part) (readers, writers *last) {
	if len(list) == 0 {
		return nil, nil
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	all := y.of(p)
	if y.codes == nil {
		y.codes = heat.NewCodes(all, p.tableBlocks, y.finder)
	}
	first, second := y.codes.In(list, of.First, of.End)
	return y.told(first), y.told(second)
}

func (y *symbols) told(list []heat.Toucher) *last {
	if len(list) == 0 {
		return nil
	}
	l := &last{list[:min(len(list), mostLasts)], max(0, len(list)-mostLasts)}
	var codes []*heat.Code
	for _, t := range l.Codes {
		codes = append(codes, t.Code)
	}
	y.codes.AddLines(codes, func(error) {}) // then there are none
	for i := range l.Codes {
		one := *l.Codes[i].Code // another answer may add to it
		l.Codes[i].Code = &one
	}
	return l
}

// tableBlocks are those of the table; none if it cannot be read.
func (p *program) tableBlocks() []layout.Block {
	t, err := p.openTable()
	if err != nil {
		return nil
	}
	defer t.Close()
	return heat.BlocksOf(t)
}
