package table_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// FuzzNewReader: any bytes give a table or an error, and whatever a table
// says holds when it is used.
func FuzzNewReader(f *testing.F) {
	live := tabletest.Demo(f, filepath.Join(f.TempDir(), "a.dynprof"), tabletest.Spec())
	seed, err := os.ReadFile(live.Path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:layout.HeaderSize])
	for _, at := range []int{layout.HdrObjects, layout.HdrFunctions, layout.HdrAliases, layout.HdrStrings, layout.HdrRows, layout.HdrCounters, layout.HdrFormers, layout.HdrBaselines, layout.HdrBaseline, layout.HdrFormersHead} {
		for _, field := range []int{layout.SecOffset + 2, layout.SecCount + 1, layout.SecCapacity + 3, layout.SecEntrySize + 1} {
			bad := bytes.Clone(seed)
			bad[at+field] ^= 0x81
			f.Add(bad)
		}
	}
	withBlocks := tabletest.Demo(f, filepath.Join(f.TempDir(), "b.dynprof"), blocksSpec())
	if seed, err = os.ReadFile(withBlocks.Path); err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	spare := blocksSpec()
	spare.NoSpare = false
	seed = copyWithLate(f, tabletest.Demo(f, filepath.Join(f.TempDir(), "l.dynprof"), spare))
	f.Add(seed)
	seed = bytes.Clone(seed)
	seed[layout.HdrGeneration] |= 1
	seed[layout.HdrBlocks+layout.SecCount] = 4
	f.Add(seed)
	withSites := tabletest.Demo(f, filepath.Join(f.TempDir(), "c.dynprof"), sitesSpec())
	if seed, err = os.ReadFile(withSites.Path); err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	seed = copyWithLateSites(f)
	f.Add(seed)
	seed = bytes.Clone(seed)
	seed[layout.HdrGeneration] |= 1
	seed[layout.HdrSites+layout.SecCount] = 4
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
		if (tab == nil) == (err == nil) {
			t.Fatalf("table %v, error %v", tab, err)
		}
		if err != nil {
			return
		}
		s, err := tab.Snapshot()
		if (s == nil) == (err == nil) {
			t.Fatalf("snapshot %v, error %v", s, err)
		}
		if err == nil && len(s.Calls) != len(tab.Functions) {
			t.Fatalf("%d counts of %d functions", len(s.Calls), len(tab.Functions))
		}
		if s != nil {
			tab.Flow(s)
			tab.Sites()
		}
		if most, err := table.ReadMost(file.New(bytes.NewReader(b), int64(len(b))), 2); err == nil && s != nil {
			sameMost(t, most, tab, s)
		}
		if s, err := tab.SinceReset(); err == nil {
			var calls uint64
			for _, o := range s.Owners() {
				calls += o.Calls
			}
			if s.Reset.IsZero() && calls != s.Total() {
				t.Fatalf("the owners have %d calls of %d", calls, s.Total())
			}
		}
		m, err := table.NewMeter(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatalf("the meter says %v", err)
		}
		var r table.Reading
		if m.Read(&r) == nil {
			m.Names(nil, func(n table.Named) bool { return n.Counter != layout.NoCounter })
		}
		events, _ := tab.Events()
		for _, e := range events {
			if e.Function >= len(tab.Functions) {
				t.Fatalf("event of function %d of %d", e.Function, len(tab.Functions))
			}
		}
		for i := range tab.Functions {
			_ = tab.Objects[tab.Functions[i].Object]
		}
		alive.Of(tab.File)
	})
}
