package heatview

import (
	"testing"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// BenchmarkLive is a slice more in the largest view, of 2,000 of 8,000 pages, other ones each time:
// until it is told.
func BenchmarkLive(b *testing.B) {
	p := newProgram(b, 1)
	s := heat.Slice{Time: 1, Parts: 1}
	var g *Grid
	told := 0
	for b.Loop() {
		b.StopTimer()
		s.Executed += 30_000
		s.Time += 10
		s.Ranges = s.Ranges[:0]
		for i := range uint64(2000) {
			s.Ranges = append(s.Ranges, heat.Range{First: 4*(250+i) + p.r.Uint64N(4), Pages: 1, What: heat.What(1 + p.r.IntN(3))})
		}
		p.log.Add(&s)
		p.Used, p.Executed = heat.Union(p.Used, s.Ranges), s.Executed
		f, err := heat.Read(p.table, nonce)
		if err != nil {
			b.Fatal(err)
		}
		p.File = f
		b.StartTimer()
		if g == nil {
			g = NewGrid(View{Columns: MostColumns, Rows: MostRows}, &p.Source)
		} else {
			g.Update(&p.Source)
		}
		for frame := g.Frame(1 << 20); frame != nil; frame = g.Frame(1 << 20) {
			told += len(frame)
		}
	}
	b.ReportMetric(float64(told)/float64(b.N), "told-B/op")
}
