// Package heatmap draws which pages of memory, or smaller units, a program has touched when, over
// the instructions that it has executed.
package heatmap

import (
	"fmt"
	"sort"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/density"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	pages "github.com/dynprof/dynprof/internal/table/heat"
)

// Options are how a picture is drawn.
type Options struct {
	Row    uint64 // bytes that a row of points stands for, no fewer than a unit has; 0: as many as are needed
	Column uint64 // instructions that a column stands for; 0: likewise
	Mapped bool   // pages that nothing touched have rows, too
	Blind  bool   // colours for those who do not see red
	Even   bool   // as bright where little of a point was touched as where all was
}

// How large the part of a picture is that shows pages, in points.
const (
	usualWidth, usualHeight = 1200, 1000
	mostSide                = 1 << 14
	mostArea                = 1 << 26
	tallest, widest         = 12, 8 // of a cell
)

// grid is what was done, by row and column.
type grid struct {
	column  uint64 // instructions
	row     uint64 // units
	unit    uint64 // bytes
	finest  uint64 // granules of a unit, by which it is counted how much was touched
	width   int    // columns
	height  int    // rows
	bands   []band
	runs    []run
	cells   []density.Cell // by row, the lowest address first
	shown   [8]bool        // what there is in cells
	shaded  bool           // there is a touched one that was not touched as a whole
	slices  int
	longest uint64 // instructions of the longest of them
	total   uint64 // instructions
}

// band is the rows of one of heat's, which has some.
type band struct {
	*heat.Band
	units    uint64 // that have rows
	first, n int    // rows
}

// run is units, one behind the other, of a band.
type run struct {
	first, units uint64
	band         int
	before       uint64 // units of the band
}

// newGrid lays out rows and columns, and fills them.
func newGrid(m *heat.Map, o *Options) (*grid, error) {
	g := &grid{row: (o.Row + m.Unit - 1) / m.Unit, unit: m.Unit, finest: m.Unit / m.Finest().Size(), column: o.Column, slices: len(m.Curve)}
	if g.slices == 0 {
		return nil, fmt.Errorf("no slice of time is known, in which %s ran", m.Program)
	}
	g.total = max(1, m.Curve[g.slices-1].Instructions)
	for i := range m.Bands {
		g.addBand(&m.Bands[i], o.Mapped)
	}
	if len(g.bands) == 0 {
		return nil, fmt.Errorf("%s has touched nothing", m.Program)
	}
	if err := g.layRows(o.Row > 0); err != nil {
		return nil, err
	}
	if g.column == 0 {
		g.column = (g.total + usualWidth - 1) / usualWidth
	}
	width := (g.total + g.column - 1) / g.column
	if width > mostSide || width*uint64(g.height) > mostArea {
		return nil, fmt.Errorf("%d columns of %d instructions are too many: --cols %d or more", width, g.column, (g.total+usualWidth-1)/usualWidth)
	}
	g.width = int(width)
	g.cells = make([]density.Cell, g.width*g.height)
	sums := density.Columns{}
	for i := range g.bands {
		b := &g.bands[i]
		for row := range uint64(b.n) {
			sums.Row(min(g.row, b.units-row*g.row) * g.finest)
		}
	}
	before := uint64(0)
	m.EachFinest(func(s *pages.Slice) {
		g.fill(&sums, s, before)
		g.longest, before = max(g.longest, s.Executed-before), s.Executed
	})
	sums.Last(g.write)
	for _, c := range g.cells {
		g.shown[c.What()] = true
		g.shaded = g.shaded || c.What() != 0 && c.Level() < density.Levels-1
	}
	return g, nil
}

func (g *grid) addBand(b *heat.Band, mapped bool) {
	one := band{Band: b}
	add := func(first, n uint64) {
		if k := len(g.runs) - 1; k >= 0 && g.runs[k].band == len(g.bands) && g.runs[k].first+g.runs[k].units == first {
			g.runs[k].units += n
		} else {
			g.runs = append(g.runs, run{first, n, len(g.bands), one.units})
		}
		one.units += n
	}
	if mapped && b.Mapped > 0 {
		add(b.First, b.End-b.First)
	} else {
		for _, r := range b.Ranges {
			add(r.First, r.Pages)
		}
	}
	if one.units > 0 {
		g.bands = append(g.bands, one)
	}
}

// most is how many units there are.
func (g *grid) most() uint64 { return pages.Page.Count() * pages.PageSize / g.unit }

// layRows gives each band its rows: as many units a row as it takes, if nobody has said.
func (g *grid) layRows(said bool) error {
	for !said || g.row == 0 {
		if g.row == 0 {
			g.row = 1
		} else {
			g.row *= 2
		}
		if g.rows() <= usualHeight || g.row >= g.most() {
			break
		}
	}
	n := g.rows()
	if n > mostSide {
		return fmt.Errorf("%d rows of %d bytes are too many: --rows %d or more", n, g.row*g.unit, g.row*g.unit*(n/usualHeight+1))
	}
	at := 0
	for i := range g.bands {
		b := &g.bands[i]
		b.first, b.n = at, int((b.units+g.row-1)/g.row)
		at += b.n
	}
	g.height = at
	return nil
}

func (g *grid) rows() (n uint64) {
	for i := range g.bands {
		n += (g.bands[i].units + g.row - 1) / g.row
	}
	return n
}

// fill notes a slice, in which the program went on from so many instructions.
func (g *grid) fill(sums *density.Columns, s *pages.Slice, before uint64) {
	from := min(int(before/g.column), g.width-1)
	to := min(int((max(s.Executed, before+1)-1)/g.column), g.width-1)
	perRow := g.row * g.finest
	for _, r := range s.Ranges {
		end := r.First + r.Pages
		i := sort.Search(len(g.runs), func(i int) bool { return (g.runs[i].first+g.runs[i].units)*g.finest > r.First })
		for ; i < len(g.runs) && g.runs[i].first*g.finest < end; i++ {
			u := &g.runs[i]
			skipped := (u.first - u.before) * g.finest // granules that have no row
			low := max(u.first*g.finest, r.First) - skipped
			high := min((u.first+u.units)*g.finest, end) - skipped
			first := g.bands[u.band].first
			for row := low / perRow; row*perRow < high; row++ {
				sums.Touch(first+int(row), min(high, (row+1)*perRow)-max(low, row*perRow), r.What)
			}
		}
	}
	sums.End(uint64(from), uint64(to)+1, g.write)
}

// write notes the cells of a column.
func (g *grid) write(column uint64, cells []density.Cell) {
	for row, cell := range cells {
		g.cells[row*g.width+int(column)] = cell
	}
}

// address is that of a row's first unit, which is in a band.
func (g *grid) address(b *band, row int) uint64 {
	index := uint64(row-b.first) * g.row
	for i := range g.runs {
		if u := &g.runs[i]; &g.bands[u.band] == b && index < u.before+u.units {
			return (u.first + index - u.before) * g.unit
		}
	}
	return 0
}
