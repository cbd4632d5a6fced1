package heatmap

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/density"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	pages "github.com/dynprof/dynprof/internal/table/heat"
)

// legend is what the points of a picture are.
type legend struct {
	Schema  int               `json:"schema"`
	Program string            `json:"program"`
	Column  uint64            `json:"instructions_per_column"`
	Row     uint64            `json:"bytes_per_row"`
	Unit    uint64            `json:"unit"` // bytes: of pages, or of what is smaller
	Colours map[string]string `json:"colours"`
	Shades  []legendShade     `json:"shades,omitempty"` // by the share of what a point stands for that was touched
	Plot    rectangle         `json:"plot"`             // points of the picture
	Bands   []legendBand      `json:"memory"`
}

// legendShade is how bright a colour is from some share on.
type legendShade struct {
	Least      float64 `json:"least"`
	Brightness float64 `json:"brightness"`
}

type rectangle struct {
	X         int `json:"x"`
	Y         int `json:"y"`
	Width     int `json:"width"`
	Height    int `json:"height"`
	PerColumn int `json:"points_per_column"`
	PerRow    int `json:"points_per_row"`
}

// legendBand is rows of the same memory, the highest address first.
type legendBand struct {
	Name  string      `json:"name"`
	Pages uint64      `json:"pages"` // or smaller units
	Rows  []legendRow `json:"rows"`
}

type legendRow struct {
	Y       int            `json:"y"`
	Address report.Address `json:"address"` // of the first unit; those behind it in the row are the next that have one
}

// Legend writes it as JSON.
func (p *Picture) Legend(w io.Writer) error {
	g := p.grid
	l := legend{
		Schema: report.Schema, Program: p.m.Program, Column: g.column, Row: g.row * g.unit, Unit: g.unit, Colours: map[string]string{},
		Plot: rectangle{p.plot.Min.X, p.plot.Min.Y, p.plot.Dx(), p.plot.Dy(), p.across, p.down},
	}
	for what := range pages.What(len(names)) {
		c := p.colour(what)
		l.Colours[names[what]] = fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B)
	}
	for level := 0; level < density.Levels && !p.even; level++ {
		l.Shades = append(l.Shades, legendShade{density.Least(level), density.Brightness(level)})
	}
	for i := len(g.bands) - 1; i >= 0; i-- {
		b := &g.bands[i]
		one := legendBand{Name: b.Name, Pages: b.units}
		for k := range b.n {
			one.Rows = append(one.Rows, legendRow{p.plot.Min.Y + p.tops[i] + k*p.down, report.Address(g.address(b, b.first+b.n-1-k))})
		}
		l.Bands = append(l.Bands, one)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(l)
}
