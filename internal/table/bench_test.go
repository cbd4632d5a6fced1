package table_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func BenchmarkCreate40000(b *testing.B) {
	spec, dir := tabletest.Synthetic(40000), b.TempDir()
	b.ReportAllocs()
	for b.Loop() {
		f, err := table.Create(filepath.Join(dir, "a.dynprof"), spec)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Publish(); err != nil {
			b.Fatal(err)
		}
		f.Close()
		b.StopTimer()
		os.Remove(f.Path())
		b.StartTimer()
	}
}

func filled(b *testing.B) string {
	live := tabletest.Create(b, "a.dynprof", tabletest.Synthetic(40000))
	counts := make([]uint64, 40000)
	for i := range counts {
		counts[i] = uint64(i) * 7
	}
	for row := range uint32(8) {
		live.Row(table.Row{Index: row, State: table.RowLive})
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
	t := open(b, filled(b))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Snapshot(); err != nil {
			b.Fatal(err)
		}
	}
}
