package table_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// Blocks and call sites of objects that come later.

// spareBlocks is a table with room for some.
func spareBlocks(t testing.TB) *tabletest.Live {
	spec := blocksSpec()
	spec.NoSpare = false
	live := tabletest.Create(t, "a.dynprof", spec)
	live.Row(layout.Row{State: layout.RowLive, Kind: layout.RowThread, Pid: 1, Tid: 1})
	return live
}

// TestLateBlocks: what was added later is read as what was there, by those who keep a table
// open, and in copies.
func TestLateBlocks(t *testing.T) {
	live := spareBlocks(t)
	m, r := meter(t, live.Path), &table.Reading{}
	agree(t, m, r, live.Path)
	addLate(t, live.Path)
	addLate(t, live.Path)
	live.Set(0, 10, 20, 30, 40, 12, 7, 100, 200, 120, 70, 1000, 2000, 1200, 700)
	want := []uint64{10, 27, 12, 20 + 27, 100, 270, 120, 200 + 270, 1000, 2700, 1200, 2000 + 2700}
	check := func(path string) {
		t.Helper()
		if got := runsOf(t, path); !slices.Equal(got, want) {
			t.Errorf("%d, not %d", got, want)
		}
		tab := tabletest.Open(t, path)
		s := tabletest.Snapshot(t, tab)
		f, err := tab.Flow(s)
		if err != nil {
			t.Fatal(err)
		}
		if p := f.Of(uint32(len(tab.Functions) - 1)); s.Total() != 100+300+3000 || len(p.Blocks) != 3 || len(p.Ways) != 6 || len(p.Loops) != 1 || p.Loops[0].Entries != 2000 {
			t.Errorf("%d calls, %+v", s.Total(), p)
		}
		agree(t, meter(t, path), r, path)
	}
	check(live.Path)
	agree(t, m, r, live.Path)
	copied := filepath.Join(t.TempDir(), "copy")
	if err := edit.Copy(live.Path, copied); err != nil {
		t.Fatal(err)
	}
	check(copied)
	if b, err := os.ReadFile(copied); err != nil || b[layout.HdrVersion] != layout.VersionLate {
		t.Errorf("it says version %d, %v", b[layout.HdrVersion], err)
	}
}

// TestLateBlocksKilled: wherever a process dies that adds blocks, the table is sound, and the
// next one that adds finds it so.
func TestLateBlocksKilled(t *testing.T) {
	killedAdding(t, spareBlocks, lateWithBlocks, 15, func(live *tabletest.Live, stores int) {
		live.Set(0, 10, 20, 30, 40, 12, 7)
		if got := runsOf(t, live.Path); len(got) != 4 && len(got) != 8 || !slices.Equal(got[:4], []uint64{10, 27, 12, 47}) {
			t.Errorf("after %d stores: %d", stores, got)
		}
		addLate(t, live.Path)
		tab := tabletest.Open(t, live.Path)
		f, flowErr := tab.Flow(tabletest.Snapshot(t, tab))
		if flowErr != nil {
			t.Fatalf("added after %d stores: %v", stores, flowErr)
		}
		if p := f.Of(uint32(len(tab.Functions) - 1)); len(p.Blocks) != 3 || len(p.Ways) != 6 || len(p.Loops) != 1 || tab.Generation%2 != 0 {
			t.Errorf("added after %d stores: %+v", stores, p)
		}
	})
}

// copyWithLate are the bytes of a copy of a table to which an object was added.
func copyWithLate(t testing.TB, live *tabletest.Live) []byte {
	t.Helper()
	addLate(t, live.Path)
	to := live.Path + ".copy"
	if err := edit.Copy(live.Path, to); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHostileLateBlocks: what a table claims of objects that came later is not believed.
func TestHostileLateBlocks(t *testing.T) {
	spec := blocksSpec()
	spec.NoSpare, spec.ShortSpace = false, true
	seed := copyWithLate(t, tabletest.Create(t, "a.dynprof", spec))
	blocks, ways := int(le.Uint64(seed[layout.HdrBlocks:])), int(le.Uint64(seed[layout.HdrWays:]))
	for name, spoil := range map[string]func([]byte){
		"fewer blocks":          func(b []byte) { b[layout.HdrBlocks+layout.SecCount] = 7 },
		"no ways":               func(b []byte) { b[layout.HdrWays+layout.SecCount] = 6 },
		"a counter behind all":  func(b []byte) { b[blocks+6*layout.BkEntrySize+layout.BkCounter] = 10 },
		"another's way":         func(b []byte) { b[ways+6*layout.WyEntrySize+layout.WyFrom] = 1 },
		"a function before":     func(b []byte) { b[blocks+4*layout.BkEntrySize+layout.BkFunction] = 0 },
		"cut, and not in order": func(b []byte) { b[layout.HdrGeneration] |= 1; b[layout.HdrBlocks+layout.SecCount] = 7 },
	} {
		b := bytes.Clone(seed)
		spoil(b)
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
		if err == nil {
			_, err = tab.Flow(tabletest.Snapshot(t, tab))
		}
		if !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// spareSites is a table that counts calls by site, with room for more.
func spareSites(t testing.TB) *tabletest.Live {
	spec := sitesSpec()
	spec.NoSpare = false
	live := tabletest.Create(t, "a.dynprof", spec)
	live.Row(layout.Row{State: layout.RowLive, Kind: layout.RowThread, Pid: 1, Tid: 1})
	return live
}

// lateWithSites is an object for that table whose first function calls the second, and itself by
// a site that is not counted.
func lateWithSites(a *build.Appender) *build.Spec {
	spec := tabletest.Late(uint16(a.Objects.Count), a.Counters)
	f := a.Functions.Count
	sites := []layout.Site{
		{Address: 0x1008, Caller: f, Callee: f + 1, Counter: a.Counters + 2, Stub: 0x40, Count: 9},
		{Address: 0x1010, Caller: f, Callee: f, Counter: layout.NoCounter},
	}
	spec.Sites = &build.Sites{Each: pointers(sites), Counters: layout.BlockCounters{First: a.Counters + 2, Count: 2}}
	return spec
}

func addSites(t testing.TB, path string) {
	t.Helper()
	a, err := build.OpenAppend(tabletest.Writable(t, path))
	if err == nil {
		err = a.Add(lateWithSites(a))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestLateSites: call sites that were added later are read as those that were there, also by
// who keeps the table open, and in copies; their counts are no calls.
func TestLateSites(t *testing.T) {
	live := spareSites(t)
	m, r := meter(t, live.Path), &table.Reading{}
	agree(t, m, r, live.Path)
	for range 2 {
		addSites(t, live.Path)
	}
	live.Set(0, 10, 20, 30, 40, 12, 99, 7, 100, 200, 150, 9999, 1000, 2000, 1500, 9999)
	want := []uint64{12, 7, 0, 150, 0, 1500, 0}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := edit.Copy(live.Path, copied); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{live.Path, copied} {
		if got := callsOf(t, path); !slices.Equal(got, want) {
			t.Errorf("%d, not %d", got, want)
		}
		if s := tabletest.Snapshot(t, tabletest.Open(t, path)); s.Total() != 100+300+3000 {
			t.Errorf("%d calls", s.Total())
		}
		agree(t, meter(t, path), r, path)
	}
	agree(t, m, r, live.Path)
	if b, err := os.ReadFile(copied); err != nil || b[layout.HdrVersion] != layout.VersionLateSites {
		t.Errorf("it says version %d, %v", b[layout.HdrVersion], err)
	}
}

// TestLateSitesFull: there is room for so many, and what finds none leaves the table as it is.
func TestLateSitesFull(t *testing.T) {
	for _, short := range []bool{false, true} {
		spec := sitesSpec()
		spec.NoSpare, spec.ShortSpace = false, short
		live := tabletest.Create(t, "a.dynprof", spec)
		a, err := build.OpenAppend(tabletest.Writable(t, live.Path))
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]int{false: build.SpareSites, true: build.SpareSites / build.BlocksShort}[short]
		if r := a.Left(); r.Sites != want || r.Counters < want {
			t.Errorf("room for %d, not %d", r.Sites, want)
		}
		live.Write(layout.HdrSites+layout.SecCapacity, []byte{4, 0, 0, 0})
		if a, err = build.OpenAppend(tabletest.Writable(t, live.Path)); err != nil {
			t.Fatal(err)
		}
		if err := a.Add(lateWithSites(a)); !errors.Is(err, build.ErrFull) {
			t.Error(err)
		}
		if got := callsOf(t, live.Path); len(got) != 3 {
			t.Errorf("%d sites", len(got))
		}
	}
}

// TestLateSitesKilled: wherever a process dies that adds call sites, the table is sound, and the
// next one that adds finds it so.
func TestLateSitesKilled(t *testing.T) {
	killedAdding(t, spareSites, lateWithSites, 13, func(live *tabletest.Live, stores int) {
		live.Set(0, 10, 20, 30, 40, 12, 99, 7)
		if got := callsOf(t, live.Path); len(got) != 3 && len(got) != 5 || !slices.Equal(got[:3], []uint64{12, 7, 0}) {
			t.Errorf("after %d stores: %d", stores, got)
		}
		addSites(t, live.Path)
		tab := tabletest.Open(t, live.Path)
		sites, sitesErr := tab.Sites()
		if sitesErr != nil || len(sites) < 5 || tab.Generation%2 != 0 {
			t.Fatalf("added after %d stores: %v, %+v", stores, sitesErr, sites)
		}
		if s, last := &sites[len(sites)-2], len(tab.Functions)-1; s.Callee != uint32(last) || s.Counter != tab.Functions[last].Counter+1 {
			t.Errorf("added after %d stores: %+v", stores, s)
		}
	})
}

// copyWithLateSites are the bytes of a copy of such a table.
func copyWithLateSites(t testing.TB) []byte {
	t.Helper()
	live := spareSites(t)
	addSites(t, live.Path)
	to := live.Path + ".copy"
	if err := edit.Copy(live.Path, to); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHostileLateSites: what a table claims of call sites that came later is not believed.
func TestHostileLateSites(t *testing.T) {
	seed := copyWithLateSites(t)
	site := int(le.Uint64(seed[layout.HdrSites:])) + 3*layout.StEntrySize
	for name, spoil := range map[string]func([]byte){
		"a counter behind all": func(b []byte) { b[site+layout.StCounter] = 11 },
		"one in front":         func(b []byte) { b[site+layout.StCounter] = 3 },
		"another's callee":     func(b []byte) { b[site+layout.StCallee] = 0 },
		"a hole":               func(b []byte) { clear(b[site:][:layout.StEntrySize]) },
		"too many":             func(b []byte) { b[layout.HdrCounters+3] = 0x7f },
	} {
		b := bytes.Clone(seed)
		spoil(b)
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
		if err == nil {
			_, err = tab.Sites()
		}
		if !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
