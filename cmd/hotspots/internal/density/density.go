// Package density fills the cells of pictures of memory: what was done in each, and with how much
// of that which it stands for, which is its granules, once for each slice of time in it.
package density

import (
	"math"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// Cell is what was done in a cell, and the level of how much of it was touched.
type Cell uint8

// CellBits are those that a Cell has at most.
const CellBits = 7

const whatBits = 3

// Levels are how many shares are told apart: the last is all, each before it begins at a part of
// 1/√2 of the one behind it, and the first at nothing.
const Levels = 1 << (CellBits - whatBits)

func (c Cell) What() heat.What { return heat.What(c & (1<<whatBits - 1)) }
func (c Cell) Level() int      { return int(c >> whatBits) }

// cellOf is that of granules of which so many were touched, some at least, out of so many.
func cellOf(what heat.What, touched, of uint64) Cell {
	share := float64(touched) / float64(of)
	_, above := math.Frexp(share * share) // share² is less than two to that power, and no less than half of it
	return Cell(max(0, Levels-2+above))<<whatBits | Cell(what)
}

// Least is the least share of a level.
func Least(level int) float64 {
	if level == 0 {
		return 0
	}
	return math.Exp2(float64(level-(Levels-1)) / 2)
}

// Faintest is how bright the first level is, so that a single touch is still seen.
const Faintest = 0.4

// Brightness is that of a level, by its logarithm: 1 is all.
func Brightness(level int) float64 { return Faintest + (1-Faintest)*float64(level)/(Levels-1) }

// Columns makes the cells of one column of a picture after the other, of slices as they come: Touch
// for what was done in a slice, then End. Only one column can get more by what comes later, so that
// no other is held. The zero value has no rows.
type Columns struct {
	rows    []row
	touched []int  // rows, in this slice
	column  uint64 // the last one, if slices is not 0
	slices  uint64 // in it
	cells   []Cell // of it, as it is told
}

// row has sums of one slice, and of the last column.
type row struct {
	granules uint64 // that it stands for
	slice    sum
	column   sum
}

type sum struct {
	what    heat.What
	touched uint64
}

func (s *sum) add(more sum) {
	s.what |= more.what
	s.touched += more.touched
}

// Row adds a row of so many granules behind the others.
func (c *Columns) Row(granules uint64) { c.rows = append(c.rows, row{granules: granules}) }

// Touch notes what was done in a slice with so many granules of a row, with each once.
func (c *Columns) Touch(row int, granules uint64, what heat.What) {
	s := &c.rows[row].slice
	if s.touched == 0 {
		c.touched = append(c.touched, row)
	}
	s.add(sum{what, granules})
}

// End ends a slice, which is in some columns, not in the one behind the last, nor in any before
// those of slices before it. It calls write for all columns but the last, with cells by row, that
// are not to be kept.
func (c *Columns) End(from, to uint64, write func(column uint64, cells []Cell)) {
	if c.slices == 0 || c.column != from {
		c.Last(write)
		c.begin(from)
	}
	c.addSlice()
	if to-from > 1 {
		c.Last(write)
		c.begin(to - 1)
		c.addSlice()
		cells := c.make()
		for at := from + 1; at < to-1; at++ {
			write(at, cells)
		}
	}
	for _, i := range c.touched {
		c.rows[i].slice = sum{}
	}
	c.touched = c.touched[:0]
}

// Last calls write for the last column as it is by now, if there is one.
func (c *Columns) Last(write func(column uint64, cells []Cell)) {
	if c.slices > 0 {
		write(c.column, c.make())
	}
}

func (c *Columns) begin(column uint64) {
	c.column, c.slices = column, 0
	for i := range c.rows {
		c.rows[i].column = sum{}
	}
}

func (c *Columns) addSlice() {
	c.slices++
	for _, i := range c.touched {
		c.rows[i].column.add(c.rows[i].slice)
	}
}

func (c *Columns) make() []Cell {
	c.cells = c.cells[:0]
	for i := range c.rows {
		cell := Cell(0)
		if r := &c.rows[i]; r.column.what != 0 {
			cell = cellOf(r.column.what, r.column.touched, r.granules*c.slices)
		}
		c.cells = append(c.cells, cell)
	}
	return c.cells
}
