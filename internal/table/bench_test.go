package table_test

import (
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func filled(b *testing.B) string {
	live := tabletest.Create(b, "a.dynprof", tabletest.Synthetic(40000))
	counts := make([]uint64, 40000)
	for i := range counts {
		counts[i] = uint64(i) * 7
	}
	for row := range uint32(8) {
		live.Row(layout.Row{Index: row, State: layout.RowLive})
		live.Set(row, counts...)
	}
	return live.Path
}

func BenchmarkOpen40000(b *testing.B) {
	path := filled(b)
	b.ReportAllocs()
	for b.Loop() {
		t, err := table.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		t.Close()
	}
}

func BenchmarkSnapshot40000x8(b *testing.B) {
	t := tabletest.Open(b, filled(b))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Snapshot(); err != nil {
			b.Fatal(err)
		}
	}
}
