package web

import (
	"encoding/json"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/live"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// BenchmarkLedger is what the functions of a table of 100,000 take to write.
func BenchmarkLedger(b *testing.B) {
	l := tabletest.Create(b, "a.dynprof", tabletest.Synthetic(100_000))
	p, err := live.Open(l.Path, false, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	f := p.Read(false)
	for b.Loop() {
		if _, err := json.Marshal(ledgerOf(f.Book)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	l := tabletest.Create(b, "a.dynprof", tabletest.Synthetic(100_000))
	for b.Loop() {
		p, err := live.Open(l.Path, false, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		p.Read(false)
		p.Close()
	}
}
