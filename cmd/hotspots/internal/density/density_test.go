package density

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// TestLevels: the last is all, and each begins where it says; whatever was touched has one.
func TestLevels(t *testing.T) {
	for _, row := range []struct {
		touched, of uint64
		level       int
	}{
		{1, 1, 15}, {4096, 4096, 15}, {4095, 4096, 14}, {math.MaxUint64 >> 16, math.MaxUint64 >> 16, 15}, {1<<48 - 1, 1 << 48, 14},
		{3, 4, 14}, {71, 100, 14}, {70, 100, 13}, {1, 2, 13}, {1, 4, 11}, {1, 64, 3}, {1, 128, 1}, {1, 129, 0}, {1, 1 << 50, 0},
	} {
		c := cellOf(heat.WasRead|heat.WasWritten, row.touched, row.of)
		if c.Level() != row.level || c.What() != heat.WasRead|heat.WasWritten || c>>CellBits != 0 {
			t.Errorf("%d of %d: level %d, what %d, not level %d", row.touched, row.of, c.Level(), c.What(), row.level)
		}
	}
	for level := range Levels {
		if least := Least(level); level > 0 && (least <= Least(level-1) || cellOf(1, uint64(math.Ceil(least*1e9)), 1e9).Level() != level) {
			t.Errorf("level %d begins at %v", level, least)
		}
	}
	if Brightness(0) != Faintest || Brightness(Levels-1) != 1 {
		t.Errorf("%v to %v", Brightness(0), Brightness(Levels-1))
	}
}

// TestColumns: each column is what its slices have touched, cell by cell, whenever it is asked for.
func TestColumns(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		granules := []uint64{1, 3, 8, 1 + r.Uint64N(1000)}
		c, rows := Columns{}, 2
		c.Row(granules[0])
		c.Row(granules[1])
		type cells [4]struct {
			what    heat.What
			touched uint64
		}
		want, in := map[uint64]*cells{}, map[uint64]uint64{}
		got := map[uint64][]Cell{}
		write := func(column uint64, list []Cell) { got[column] = slices.Clone(list) }
		for from := uint64(0); from < 30; {
			to := from + 1 + r.Uint64N(4)
			if rows < len(granules) && r.IntN(8) == 0 {
				c.Row(granules[rows])
				rows++
			}
			for column := from; column < to; column++ {
				if want[column] == nil {
					want[column] = &cells{}
				}
				in[column]++
			}
			for row := range rows {
				for left := granules[row]; left > 0 && r.IntN(2) == 0; { // in parts
					n, what := 1+r.Uint64N(left), heat.What(1+r.IntN(7))
					left -= n
					c.Touch(row, n, what)
					for column := from; column < to; column++ {
						want[column][row].what |= what
						want[column][row].touched += n
					}
				}
			}
			c.End(from, to, write)
			if r.IntN(3) == 0 {
				c.Last(write)
			}
			from = to - 1 + r.Uint64N(3)/2
		}
		c.Last(write)
		for column, list := range want {
			for row := range rows {
				is := Cell(0)
				if row < len(got[column]) { // else it came later
					is = got[column][row]
				}
				cell := list[row]
				share := float64(cell.touched) / float64(in[column]*granules[row])
				if level := is.Level(); is.What() != cell.what || cell.what != 0 && (share < Least(level) || level < Levels-1 && share >= Least(level+1)) || cell.what == 0 && is != 0 {
					t.Fatalf("seed %d, column %d, row %d: what %d, level %d, not %d, %v", seed, column, row, is.What(), level, cell.what, share)
				}
			}
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d columns, not %d", seed, len(got), len(want))
		}
	}
}
