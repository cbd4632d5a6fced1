package heatview

import (
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/density"
	"github.com/dynprof/dynprof/internal/table/heat"
)

// Grid is the cells of a view. A column is a power of two of instructions, and a row one of
// granules at a multiple of it, so that what comes later changes none that is there: a row that
// is new is behind the others, and who draws them puts them in order of their addresses.
type Grid struct {
	View
	source Source
	begun  bool

	shift  uint     // a column is 1<<shift instructions
	height uint     // a row is 1<<height granules
	first  uint64   // column at the left
	end    uint64   // the one behind the last
	keys   []uint64 // rows by address: granules of each by their number in a row
	slots  []int    // by the same: which row that is
	stored []uint64 // by row: its key

	cells []density.Cell // of column c, row r: (c%Columns)*Rows + r
	sums  density.Columns
	at    heat.Cursor

	untold   bool   // nothing is told yet of how it is laid out
	told     int    // rows that are told
	from, to uint64 // columns that are to be told, the last one not among them
}

// NewGrid is that of a view of a source.
func NewGrid(v View, s *Source) *Grid {
	v.navigate(s)
	g := &Grid{View: v, cells: make([]density.Cell, v.Columns*v.Rows)}
	g.Update(s)
	return g
}

// Update goes on with what a source has by now.
func (g *Grid) Update(s *Source) {
	old := g.source
	g.source = *s
	if !g.begun || old.Times != s.Times || g.Mapped && old.Maps != s.Maps || !g.hasRoom() || !g.fill() {
		g.begun = true
		g.lay()
		if !g.fill() {
			panic("heatview: BUG: there are more rows than there is room for")
		}
	}
}

// span is the columns that are shown, the last one not among them.
func (g *Grid) span(shift uint) (first, end uint64) {
	last := max(g.source.Executed, 1) - 1
	switch {
	case g.Last > 0:
		n := (g.Last-1)>>shift + 2
		end = last>>shift + 1
		return end - min(end, n), end
	case g.Before > 0:
		return g.After >> shift, (g.Before-1)>>shift + 1
	}
	return g.After >> shift, max(last>>shift, g.After>>shift) + 1
}

// hasRoom reports whether all columns have room, and empties those that are new.
func (g *Grid) hasRoom() bool {
	first, end := g.span(g.shift)
	if end-first > uint64(g.Columns) {
		return false
	}
	for c := max(first, g.end); c < end; c++ {
		clear(g.column(c))
	}
	g.first, g.end, g.from = first, end, max(g.from, first)
	return true
}

func (g *Grid) column(c uint64) []density.Cell {
	return g.cells[int(c%uint64(g.Columns))*g.Rows:][:g.Rows]
}

// lay chooses columns and rows for all that there is.
func (g *Grid) lay() {
	clear(g.cells)
	g.shift = 0
	for {
		first, end := g.span(g.shift)
		if end-first <= uint64(g.Columns) {
			g.first, g.end = first, end
			g.from, g.to = first, end
			break
		}
		g.shift++
	}
	var runs []heat.Range
	low, high := g.clip(g.source.Granule)
	for _, r := range g.source.rows(g.Mapped) {
		if r = r.Clip(low, high); r.Pages > 0 {
			runs = append(runs, r)
		}
	}
	for g.height = 0; ; g.height++ {
		if g.keys = keysOf(runs, g.height, g.Rows); len(g.keys) <= g.Rows {
			break
		}
	}
	g.stored = append([]uint64(nil), g.keys...)
	g.slots = make([]int, len(g.keys))
	g.sums = density.Columns{}
	for i, key := range g.keys {
		g.slots[i] = i
		g.sums.Row(g.granules(key))
	}
	g.at = heat.Cursor{}
	g.untold, g.told = true, 0
}

// keysOf are the rows of so many granules that runs are in, or one more than most of them.
func keysOf(runs []heat.Range, height uint, most int) (keys []uint64) {
	for _, r := range runs {
		key, last := r.First>>height, (r.First+r.Pages-1)>>height
		if n := len(keys); n > 0 && keys[n-1] >= key {
			key = keys[n-1] + 1
		}
		for ; key <= last; key++ {
			if keys = append(keys, key); len(keys) > most {
				return keys
			}
		}
	}
	return keys
}

// fill notes what slices behind the cursor have. It is false where rows have no room.
func (g *Grid) fill() (ok bool) {
	ok = true
	low, high := g.clip(g.source.Granule)
	g.source.File.From(&g.at, func(s *heat.Slice, c *heat.Cursor) bool {
		began := s.Began(c.Executed)
		from := max(began>>g.shift, g.first)
		to := min((max(s.Executed, began+1)-1)>>g.shift+1, g.end)
		if from >= to {
			return true
		}
		for _, r := range g.source.Settled(s.Ranges) {
			if r = r.Clip(low, high); r.Pages > 0 && !g.put(r) {
				ok = false
				return false
			}
		}
		g.sums.End(from, to, g.write)
		if g.from >= g.to {
			g.from, g.to = from, to
		}
		g.from, g.to = min(g.from, from), max(g.to, to)
		return true
	})
	g.sums.Last(g.write)
	return ok
}

// write notes the cells of a column, if it is shown.
func (g *Grid) write(column uint64, cells []density.Cell) {
	if column >= g.first && column < g.end {
		copy(g.column(column), cells)
	}
}

// granules are how many of a row are in the view.
func (g *Grid) granules(key uint64) uint64 {
	low, high := g.clip(g.source.Granule)
	return min((key+1)<<g.height, high) - max(key<<g.height, low)
}

// put notes a range of a slice.
func (g *Grid) put(r heat.Range) bool {
	key, last := r.First>>g.height, (r.First+r.Pages-1)>>g.height
	i, _ := slices.BinarySearch(g.keys, key)
	for ; key <= last; key, i = key+1, i+1 {
		if i == len(g.keys) || g.keys[i] != key {
			if len(g.keys) == g.Rows {
				return false
			}
			g.keys = slices.Insert(g.keys, i, key)
			g.slots = slices.Insert(g.slots, i, len(g.stored))
			g.stored = append(g.stored, key)
			g.sums.Row(g.granules(key))
		}
		part := r.Clip(key<<g.height, (key+1)<<g.height)
		g.sums.Touch(g.slots[i], part.Pages, r.What)
	}
	return true
}
