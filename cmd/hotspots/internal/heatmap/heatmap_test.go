package heatmap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/density"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	pages "github.com/dynprof/dynprof/internal/table/heat"
)

// mapOf is a map of slices.
func mapOf(t *testing.T, executed []pages.Range, maps *pages.Maps, all ...pages.Slice) *heat.Map {
	t.Helper()
	var log pages.Log
	for i := range all {
		all[i].Parts = 1
		log.Add(&all[i])
	}
	table := filepath.Join(t.TempDir(), "a")
	if err := log.Close(table, [16]byte{}, maps); err != nil {
		t.Fatal(err)
	}
	f, err := pages.Read(table, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	return heat.New(f, executed, heat.Show{})
}

// TestGrid: each cell has what was done with its pages in its instructions.
func TestGrid(t *testing.T) {
	const most = 60
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []pages.Slice
		at, used := uint64(0), map[uint64]bool{}
		for i := range uint64(1 + r.IntN(20)) {
			at += uint64(r.IntN(100))
			s := pages.Slice{Executed: at, Time: i}
			for p := uint64(r.IntN(9)); p < most; p += uint64(1 + r.IntN(9)) {
				n := min(uint64(1+r.IntN(4)), most-p)
				s.Ranges = append(s.Ranges, pages.Range{First: p, Pages: n, What: pages.What(1 + r.IntN(3))})
				for ; n > 0; n-- {
					used[p] = true
					p++
				}
			}
			all = append(all, s)
		}
		maps := &pages.Maps{Mappings: []pages.Mapping{{Start: 7 * 4096, End: 20 * 4096, Path: "/a"}, {Start: 20 * 4096, End: 23 * 4096, Path: "/b"}, {Start: 40 * 4096, End: 45 * 4096, Path: "/b"}}}
		m := mapOf(t, nil, maps, all...)
		o := &Options{Row: 4096 * uint64(r.IntN(4)), Column: uint64(r.IntN(50)), Mapped: r.IntN(2) > 0}
		g, err := newGrid(m, o)
		if len(used) == 0 && !o.Mapped {
			if err == nil {
				t.Errorf("seed %d: a picture of nothing", seed)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		has := 0
		for p := range uint64(most) {
			if used[p] || o.Mapped && p >= 7 && p < 45 && (p < 23 || p >= 40) {
				has++
			}
		}
		rows := uint64(0)
		for i := range g.bands {
			rows += g.bands[i].units
		}
		if rows != uint64(has) {
			t.Fatalf("seed %d: %d pages have rows, not %d", seed, rows, has)
		}
		want, touched := make([]pages.What, len(g.cells)), make([]int, len(g.cells))
		there, in := make([]int, g.height), make([]int, g.width) // pages of a row, slices of a column
		for p := range uint64(most) {
			if used[p] || o.Mapped && p >= 7 && p < 45 && (p < 23 || p >= 40) {
				there[rowOf(t, g, p)]++
			}
		}
		before := uint64(0)
		for _, s := range all {
			columns := map[int]bool{}
			for n := before; n < max(s.Executed, before+1); n++ {
				columns[min(int(n/g.column), g.width-1)] = true
			}
			for column := range columns {
				in[column]++
				for _, one := range s.Ranges {
					for p := one.First; p < one.First+one.Pages; p++ {
						cell := rowOf(t, g, p)*g.width + column
						want[cell] |= one.What
						touched[cell]++
					}
				}
			}
			before = s.Executed
		}
		for i := range want {
			level := 0
			for share := float64(touched[i]) / float64(there[i/g.width]*in[i%g.width]); level < density.Levels-1 && share >= density.Least(level+1); {
				level++
			}
			if g.cells[i] != density.Cell(level<<3|int(want[i])) {
				t.Fatalf("seed %d: row %d, column %d: %d, level %d, not %d, %d", seed, i/g.width, i%g.width, g.cells[i].What(), g.cells[i].Level(), want[i], level)
			}
		}
	}
}

// rowOf finds the row of a page by the pages in front of it.
func rowOf(t *testing.T, g *grid, page uint64) int {
	for i := range g.bands {
		n := uint64(0)
		for _, u := range g.runs {
			if u.band == i && u.first <= page && page < u.first+u.units {
				return g.bands[i].first + int((n+page-u.first)/g.row)
			} else if u.band == i {
				n += u.units
			}
		}
	}
	t.Fatalf("page %d has no row", page)
	return 0
}

// phases are 40 pages of a file and 3 of the stack in two phases.
func phases(t *testing.T) *heat.Map {
	maps := &pages.Maps{Ended: true, Mappings: []pages.Mapping{{Start: 0x400000, End: 0x440000, Path: "/usr/bin/app"}, {Start: 0x7ff000000000, End: 0x7ff000003000, Path: "[stack]"}}}
	executed := []pages.Range{{First: 0x400, Pages: 4, What: pages.WasExecuted}}
	return mapOf(t, executed, maps,
		pages.Slice{Executed: 1000, Time: 1e6, Ranges: []pages.Range{{First: 0x400, Pages: 4, What: pages.WasExecuted}, {First: 0x410, Pages: 16, What: pages.WasWritten}}},
		pages.Slice{Executed: 3000, Time: 2e6, Ranges: []pages.Range{{First: 0x410, Pages: 16, What: pages.WasRead}, {First: 0x420, Pages: 8, What: pages.WasExecuted}, {First: 0x7ff000000, Pages: 3, What: pages.WasRead | pages.WasWritten}}})
}

// TestDraw: the points of a picture are what its legend says.
func TestDraw(t *testing.T) {
	for _, o := range []Options{{}, {Blind: true}, {Row: 8192, Column: 10}, {Mapped: true}} {
		p, err := Draw(phases(t), o)
		if err != nil {
			t.Fatal(err)
		}
		var drawn, text bytes.Buffer
		if err := p.PNG(&drawn); err != nil {
			t.Fatal(err)
		}
		if err := p.Legend(&text); err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(&drawn)
		if err != nil {
			t.Fatal(err)
		}
		var l struct {
			Column  uint64            `json:"instructions_per_column"`
			Row     uint64            `json:"bytes_per_row"`
			Colours map[string]string `json:"colours"`
			Plot    rectangle         `json:"plot"`
			Bands   []struct {
				Name string
				Rows []struct {
					Y       int
					Address string
				}
			} `json:"memory"`
		}
		if err := json.Unmarshal(text.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if len(l.Bands) != 2 || l.Bands[0].Name != "[stack]" || l.Plot.Width != 3000/int(l.Column)*l.Plot.PerColumn && o.Column > 0 {
			t.Errorf("%+v", l)
		}
		seen := map[string]int{}
		for _, b := range l.Bands {
			for _, row := range b.Rows {
				at := func(instructions uint64) string {
					c := p.image.RGBAAt(l.Plot.X+int(instructions/l.Column)*l.Plot.PerColumn, row.Y)
					if c != picture.At(l.Plot.X+int(instructions/l.Column)*l.Plot.PerColumn, row.Y) {
						t.Errorf("another picture is read")
					}
					for name, hex := range l.Colours {
						if hex == hexOf(c.R, c.G, c.B) {
							return name
						}
					}
					return "none"
				}
				kind := b.Name + ": " + at(500) + ", " + at(2000)
				seen[kind]++
				if strings.HasPrefix(row.Address, "0x41") && kind != "/usr/bin/app: store, load" {
					t.Errorf("%s: %s", row.Address, kind)
				}
			}
		}
		per := int(l.Row / 4096)
		want := map[string]int{"/usr/bin/app: executed, not touched": 4 / per, "/usr/bin/app: store, load": 16 / per, "[stack]: not touched, load and store": (3 + per - 1) / per}
		if o.Mapped {
			want["/usr/bin/app: not touched, not touched"] = 44
		}
		if len(seen) != len(want) {
			t.Errorf("%+v: %v, not %v", o, seen, want)
		}
		for kind, n := range want {
			if seen[kind] != n {
				t.Errorf("%+v: %v, not %v", o, seen, want)
			}
		}
	}
}

func hexOf(r, g, b uint8) string {
	const digits = "0123456789abcdef"
	text := []byte("#")
	for _, c := range []uint8{r, g, b} {
		text = append(text, digits[c>>4], digits[c&15])
	}
	return string(text)
}

// TestRowsOfLines: a row may be a line, where lines were noted, or a page.
func TestRowsOfLines(t *testing.T) {
	log := pages.Log{Granule: pages.Line}
	log.Add(&pages.Slice{Executed: 1, Time: 1, Parts: 1, Ranges: []pages.Range{{First: 0x101, Pages: 2, What: pages.WasRead}, {First: 0x1ff, Pages: 1, What: pages.WasWritten}}})
	table := filepath.Join(t.TempDir(), "a")
	if err := log.Close(table, [16]byte{}, &pages.Maps{}); err != nil {
		t.Fatal(err)
	}
	f, err := pages.Read(table, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		by        pages.Granule
		bytes     uint64
		addresses string
		what      []byte
	}{
		{0, 4096, `["0x7000","0x4000"]`, []byte{2, 1}},
		{pages.Line, 64, `["0x7fc0","0x4080","0x4040"]`, []byte{2, 1, 1}},
	} {
		c, err := CellsOf(heat.New(f.In(f.Noted), nil, heat.Show{By: row.by}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		addresses, err := json.Marshal(c.Addresses)
		if err != nil || c.Row != row.bytes || string(addresses) != row.addresses || !bytes.Equal(c.What, row.what) {
			t.Errorf("%+v, not %+v: %v", c, row, err)
		}
		if _, err := Draw(heat.New(f.In(f.Noted), nil, heat.Show{By: row.by}), Options{Row: row.bytes}); err != nil {
			t.Error(err)
		}
	}
}

// TestMost: what a file may say makes no picture too large to be held, and no label is lost in
// silence.
func TestMost(t *testing.T) {
	all := pages.Slice{Executed: 1 << 63, Time: 1, Ranges: []pages.Range{{First: 0, Pages: pages.Pages, What: pages.WasRead}}}
	m := mapOf(t, nil, &pages.Maps{}, all)
	if _, err := Draw(m, Options{}); err != nil {
		t.Error(err)
	}
	for _, o := range []Options{{Column: 1}, {Row: 1}, {Row: 1 << 30}, {Row: 1 << 63}} {
		if _, err := Draw(m, o); (err == nil) != (o.Row == 1<<63) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Draw(mapOf(t, nil, &pages.Maps{}), Options{}); err == nil {
		t.Error("a picture without a slice")
	}
	many := &pages.Maps{}
	one := pages.Slice{Executed: 0, Time: 1}
	for i := range uint64(3000) {
		many.Mappings = append(many.Mappings, pages.Mapping{Start: i << 14, End: (i + 1) << 14, Path: strings.Repeat("x", int(i%7)+1)})
		one.Ranges = append(one.Ranges, pages.Range{First: i << 2, Pages: 1, What: pages.WasRead})
	}
	p, err := Draw(mapOf(t, nil, many, one), Options{})
	if err != nil || len(p.labels) != mostLabels {
		t.Errorf("%v", err)
	}
}

// TestShades: a point is as bright as the legend says for the share of it that was touched, in both
// palettes: of pages, and of their lines where these were noted.
func TestShades(t *testing.T) {
	for _, granule := range []pages.Granule{pages.Page, pages.Line} {
		log := pages.Log{Granule: granule}
		per := uint64(4096 / granule.Size())
		log.Add(&pages.Slice{Executed: 10, Time: 1, Parts: 1, Ranges: []pages.Range{{First: 0, Pages: 8 * per, What: pages.WasRead}}})
		log.Add(&pages.Slice{Executed: 20, Time: 2, Parts: 1, Ranges: []pages.Range{{First: 0, Pages: 1, What: pages.WasRead}}})
		log.Add(&pages.Slice{Executed: 30, Time: 3, Parts: 1, Ranges: []pages.Range{{First: 0, Pages: 4 * per, What: pages.WasWritten}}})
		table := filepath.Join(t.TempDir(), "a")
		if err := log.Close(table, [16]byte{}, &pages.Maps{}); err != nil {
			t.Fatal(err)
		}
		f, err := pages.Read(table, [16]byte{})
		if err != nil {
			t.Fatal(err)
		}
		m := heat.New(f.In(f.Noted), nil, heat.Show{})
		for _, o := range []Options{{}, {Blind: true}, {Even: true}} {
			o.Row, o.Column = 8*4096, 10
			p, err := Draw(m, o)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			var l struct {
				Colours map[string]string `json:"colours"`
				Shades  []legendShade     `json:"shades"`
				Plot    rectangle         `json:"plot"`
			}
			if err := p.Legend(&text); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text.Bytes(), &l); err != nil {
				t.Fatal(err)
			}
			if o.Even != (len(l.Shades) == 0) {
				t.Errorf("%+v: %v", o, l.Shades)
			}
			for column, share := range []float64{1, 1 / float64(8*per), 0.5} {
				brightness := 1.0
				for _, s := range l.Shades {
					if share >= s.Least {
						brightness = s.Brightness
					}
				}
				name := []string{"load", "load", "store"}[column]
				var r, g, b uint8
				if _, err := fmt.Sscanf(l.Colours[name], "#%02x%02x%02x", &r, &g, &b); err != nil {
					t.Fatal(err)
				}
				of := func(v uint8) uint8 { return uint8(math.Round(float64(v) * brightness)) }
				if c := p.image.RGBAAt(l.Plot.X+column*l.Plot.PerColumn, l.Plot.Y); c.R != of(r) || c.G != of(g) || c.B != of(b) {
					t.Errorf("%v, %+v, %v of a point: %v, not %v of %s", granule, o, share, c, brightness, l.Colours[name])
				}
			}
		}
	}
}
