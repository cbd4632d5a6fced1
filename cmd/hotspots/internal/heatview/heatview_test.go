package heatview

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/density"
	"github.com/dynprof/dynprof/internal/table/heat"
)

// program is a source that grows.
type program struct {
	Source
	t     testing.TB
	r     *rand.Rand
	log   heat.Log
	table string
	last  heat.Slice
	all   []heat.Slice
}

var nonce = [16]byte{1}

const granule = heat.PageSize

func newProgram(t testing.TB, seed uint64) *program {
	p := &program{t: t, r: rand.New(rand.NewPCG(seed, 5)), table: filepath.Join(t.TempDir(), "a.dynprof")}
	p.log.Apart = 1
	p.Granule = granule
	p.Mapped = []Band{{Name: "/a", First: 100, End: 160}, {Name: "/own", First: 400, End: 420, Ours: true}, {Name: "/gone", First: 500, End: 520, Gone: true}, {Name: "[heap]", First: 1000, End: 1003}, {Name: "/b", First: 1 << 30, End: 1<<30 + 7}}
	if err := p.log.Open(p.table, nonce, &heat.Maps{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// run goes on for some slices.
func (p *program) run(n int) {
	for range n {
		more := uint64(p.r.IntN(3000))
		if p.r.IntN(4) == 0 {
			more = 0 // what is touched in it, the last instruction did
		}
		s := heat.Slice{Executed: p.last.Executed + more, Time: p.last.Time + 10, Parts: 1, Counting: heat.Counting(1 + p.r.IntN(3)), Minor: uint64(p.r.IntN(9)), Major: uint64(p.r.IntN(3)), Threads: uint64(p.r.IntN(9))}
		for _, base := range []uint64{100, 1000, 5000, 1 << 30} {
			for at := base + uint64(p.r.IntN(40)); at < base+70 && p.r.IntN(3) > 0; at += 1 + uint64(p.r.IntN(30)) {
				one := heat.Range{First: at, Pages: 1 + uint64(p.r.IntN(3)), What: heat.What(1 + p.r.IntN(7))}
				s.Ranges = append(s.Ranges, one)
				at += one.Pages
			}
		}
		p.log.Add(&s)
		p.last = s
		p.all = append(p.all, s)
		p.Used = heat.Union(p.Used, s.Ranges)
	}
	p.Executed = p.last.Executed
	f, err := heat.Read(p.table, nonce)
	if err != nil {
		p.t.Fatal(err)
	}
	p.File = f
}

// page is what a page of the browser knows.
type page struct {
	head
	rows  []float64
	cells map[[2]uint64]density.Cell // by column and address
}

// take reads a frame as memory.js does.
func (p *page) take(t testing.TB, frame []byte) {
	t.Helper()
	length := int(binary.LittleEndian.Uint32(frame))
	var h head
	if err := json.Unmarshal(frame[4:4+length], &h); err != nil {
		t.Fatal(err)
	}
	if h.Whole {
		p.rows, p.cells = nil, map[[2]uint64]density.Cell{}
	}
	p.head = h
	b := frame[(4+length+7)/8*8:]
	for range h.New {
		p.rows = append(p.rows, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		b = b[8:]
	}
	if len(b) != h.Bytes || len(p.rows) > h.Rows || h.End-h.First > uint64(h.Columns) || h.Begin < h.First || h.Begin+uint64(h.N) > h.End {
		t.Fatalf("%+v, %d bytes, %d rows", h, len(b), len(p.rows))
	}
	for c := range p.cells {
		if c[0] < h.First || c[0] >= h.Begin && c[0] < h.Begin+uint64(h.N) {
			delete(p.cells, c)
		}
	}
	next := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			t.Fatal("it is cut")
		}
		b = b[size:]
		return n
	}
	for c := range uint64(h.N) {
		runs, row := binary.LittleEndian.Uint16(b), uint64(0)
		b = b[2:]
		for range runs {
			row += next()
			n := next()
			for range n >> 7 {
				p.cells[[2]uint64{h.Begin + c, uint64(p.rows[row])}] = density.Cell(n & 127)
				row++
			}
		}
	}
	if len(b) > 0 {
		t.Fatalf("%d bytes are left", len(b))
	}
}

// expected is the same, cell by cell from what the program did: of how many granules there are, in
// each slice, so many were touched.
func (p *program) expected(h *head, v *View) map[[2]uint64]density.Cell {
	what, touched, slices := map[[2]uint64]heat.What{}, map[[2]uint64]uint64{}, map[uint64]uint64{}
	first, end := v.From/granule, (v.To+granule-1)/granule
	if v.To == 0 {
		end = math.MaxUint64
	}
	began := uint64(0)
	for i := range p.all {
		s := &p.all[i]
		if s.Executed == began && began > 0 {
			began--
		}
		for c := began / h.Column; c <= (max(s.Executed, began+1)-1)/h.Column && c < h.End; c++ {
			if c < h.First {
				continue
			}
			slices[c]++
			for _, r := range s.Ranges {
				for at := r.First; at < r.First+r.Pages; at++ {
					if at >= first && at < end {
						cell := [2]uint64{c, at * granule / h.Row * h.Row}
						what[cell] |= r.What
						touched[cell]++
					}
				}
			}
		}
		began = s.Executed
	}
	cells := map[[2]uint64]density.Cell{}
	for cell, is := range what {
		there := heat.Range{First: cell[1] / granule, Pages: h.Row / granule}.Clip(first, end).Pages
		level := 0
		for share := float64(touched[cell]) / float64(there*slices[cell[0]]); level < density.Levels-1 && share >= density.Least(level+1); {
			level++
		}
		cells[cell] = density.Cell(level<<3 | int(is))
	}
	return cells
}

func (p *program) check(g *Grid, seen *page, most int) {
	p.t.Helper()
	g.Update(&p.Source)
	for frame := g.Frame(most); frame != nil; frame = g.Frame(most) {
		seen.take(p.t, frame)
	}
	if !seen.Ready {
		p.t.Fatal("there is more to be told")
	}
	want := p.expected(&seen.head, &g.View)
	for at, what := range want {
		if seen.cells[at] != what {
			p.t.Fatalf("%+v: column %d, address %#x: %d, not %d", g.View, at[0], at[1], seen.cells[at], what)
		}
	}
	for at, what := range seen.cells {
		if want[at] != what {
			p.t.Fatalf("%+v: column %d, address %#x: %d, not %d", g.View, at[0], at[1], what, want[at])
		}
	}
}

// TestGrid: whatever is seen of it, in parts of whatever size, is what the program did, cell by
// cell, as it goes on.
func TestGrid(t *testing.T) {
	for i, v := range []View{
		{Columns: 64, Rows: 200},
		{Columns: 64, Rows: 30},
		{Columns: 1, Rows: 1},
		{Columns: 100, Rows: 50, Mapped: true},
		{Columns: 50, Rows: 40, Last: 7000},
		{Columns: 50, Rows: 40, Last: 1},
		{Columns: 30, Rows: 40, After: 20_000, Before: 30_000},
		{Columns: 30, Rows: 40, After: 20_000},
		{Columns: 30, Rows: 9, From: 110 * granule, To: 150 * granule},
		{Columns: 30, Rows: 90, From: 100 * granule, To: 1020 * granule, After: 3, Before: 9000, Mapped: true},
	} {
		v.Number = uint32(i)
		p := newProgram(t, uint64(i))
		p.run(1)
		g, seen := NewGrid(v, &p.Source), &page{}
		for n := range 40 {
			p.check(g, seen, []int{1, 100, 1 << 20}[n%3])
			p.run(1 + n%4)
		}
		p.Times++ // it was written anew
		p.check(g, seen, 1<<20)
		if len(seen.rows) == 0 || seen.View != v.Number {
			t.Errorf("%+v: no row", v)
		}
	}
}

// TestSettle: what is so in the end is what is told from then on.
func TestSettle(t *testing.T) {
	p := newProgram(t, 1)
	p.run(20)
	g, seen := NewGrid(View{Columns: 10, Rows: 200}, &p.Source), &page{}
	p.check(g, seen, 1000)
	p.Settle = func(list []heat.Range) (to []heat.Range) {
		for _, r := range list {
			if r.What &^= heat.WasExecuted; r.What != 0 {
				to = append(to, r)
			}
		}
		return to
	}
	p.Times++
	for i := range p.all {
		p.all[i].Ranges = p.Settle(p.all[i].Ranges)
	}
	p.check(g, seen, 1000)
}

// TestNavigate: twice as much, half of it, and beside it, by rows that there are.
func TestNavigate(t *testing.T) {
	s := &Source{Granule: granule, File: &heat.File{}, Used: []heat.Range{{First: 10, Pages: 4, What: 1}, {First: 100, Pages: 4, What: 2}}, Mapped: []Band{{Name: "/a", First: 8, End: 24}}}
	for _, row := range []struct {
		v        View
		from, to uint64
	}{
		{View{Grow: 0.5, At: 0.5}, 12, 102},
		{View{Grow: 0.5}, 10, 14},
		{View{Grow: 0.5, At: 1}, 100, 104},
		{View{From: 10 * granule, To: 14 * granule, Grow: 1.5}, 10, 102},
		{View{From: 10 * granule, To: 14 * granule, Grow: 2}, 0, 0},
		{View{From: 10 * granule, To: 14 * granule, Grow: 9}, 0, 0},
		{View{From: 10 * granule, To: 14 * granule, Move: 0.5}, 12, 102},
		{View{From: 10 * granule, To: 14 * granule, Move: 9}, 100, 104},
		{View{From: 10 * granule, To: 14 * granule, Move: -9}, 10, 14},
		{View{From: 10 * granule, To: 14 * granule, Grow: 1.0 / 65536, At: 1}, 13, 14},
		{View{From: 50 * granule, To: 60 * granule, Grow: 2}, 0, 0}, // where there is nothing
		{View{Mapped: true, Grow: 0.25}, 8, 13},
	} {
		v := row.v
		v.navigate(s)
		if v.From != row.from*granule || v.To != row.to*granule || v.Grow != 0 || v.Move != 0 {
			t.Errorf("%+v: %d to %d, not %d to %d", row.v, v.From/granule, v.To/granule, row.from, row.to)
		}
	}
}

// FuzzView: whatever a client says, it is refused, or seen within its bounds.
func FuzzView(f *testing.F) {
	for _, text := range []string{
		`{"view":1,"columns":64,"rows":32,"after":0,"before":0,"last":0,"from":0,"to":0,"mapped":false,"grow":0,"at":0,"move":0}`,
		`{"columns":4096,"rows":2048,"last":1,"grow":2,"at":0.5,"move":-1}`, `{"columns":1,"rows":1,"from":409600,"to":4096000,"mapped":true}`,
		`{"columns":5,"rows":9,"after":9007199254740991}`, `{"columns":5,"rows":9,"last":9007199254740991}`, `{"columns":-1}`, `[]`, `{}{}`, `{"columns":1e9}`, `null`, ``,
		`{"` + strings.Repeat("R", 2000) + `":1}`, `{"` + strings.Repeat("\xff", 2000) + `":1}`,
	} {
		f.Add([]byte(text))
	}
	p := newProgram(f, 9)
	p.run(60)
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ParseView(text)
		if err != nil {
			if n := len(err.Error()); n > 123 || !utf8.ValidString(err.Error()) {
				t.Errorf("%d bytes for an error", n)
			}
			return
		}
		g, seen := NewGrid(v, &p.Source), &page{}
		q := *p
		q.t = t
		if v.Columns*v.Rows <= 1<<14 {
			q.check(g, seen, 1000)
			return
		}
		for frame := g.Frame(1 << 20); frame != nil; frame = g.Frame(1 << 20) {
			seen.take(t, frame)
		}
	})
}
