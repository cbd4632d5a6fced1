package heatmap

import (
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
)

// Cells are what a picture shows, for who draws it himself.
type Cells struct {
	Columns      int              `json:"columns"`
	Rows         int              `json:"rows"` // the highest address first
	Column       uint64           `json:"instructions_per_column"`
	Row          uint64           `json:"bytes_per_row"`
	Instructions uint64           `json:"instructions"`
	What         []byte           `json:"what"`  // by row: 1 for read, 2 written, 4 executed
	Level        []byte           `json:"level"` // by row: of how much was touched, density.Levels-1 is all
	Addresses    []report.Address `json:"addresses"`
	Memory       []CellBand       `json:"memory"`
}

// CellBand is rows of the same memory.
type CellBand struct {
	Name  string `json:"name"`
	Pages uint64 `json:"pages"` // or smaller units
	First int    `json:"first"` // row
	Rows  int    `json:"rows"`
}

// CellsOf are those of a program's pages.
func CellsOf(m *heat.Map, o Options) (*Cells, error) {
	g, err := newGrid(m, &o)
	if err != nil {
		return nil, err
	}
	c := &Cells{Columns: g.width, Rows: g.height, Column: g.column, Row: g.row * g.unit, Instructions: g.total}
	for i := range slices.Backward(g.bands) {
		b := &g.bands[i]
		c.Memory = append(c.Memory, CellBand{b.Name, b.units, len(c.Addresses), b.n})
		for row := b.first + b.n - 1; row >= b.first; row-- {
			c.Addresses = append(c.Addresses, report.Address(g.address(b, row)))
			for _, cell := range g.cells[row*g.width:][:g.width] {
				c.What = append(c.What, byte(cell.What()))
				c.Level = append(c.Level, byte(cell.Level()))
			}
		}
	}
	return c, nil
}
