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

// sitesSpec is a program that calls by three sites, of which two are counted.
func sitesSpec() *build.Spec {
	spec := tabletest.Spec()
	sites := []layout.Site{
		{Address: 0x1140, Caller: 0, Callee: 1, Counter: 4, Stub: 0x100, Count: 9},
		{Address: 0x1150, Caller: 0, Callee: 2, Counter: 6, Stub: 0x110, Count: 9, Flags: layout.SiteTail},
		{Address: 0x1162, Caller: 1, Callee: 2, Counter: layout.NoCounter},
	}
	spec.Sites = &build.Sites{Each: pointers(sites), Counters: layout.BlockCounters{First: 4, Count: 3}}
	return spec
}

func callsOf(t *testing.T, path string) (calls []uint64) {
	t.Helper()
	tab := tabletest.Open(t, path)
	sites, err := tab.Sites()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sites {
		calls = append(calls, s.Calls)
	}
	return calls
}

// TestSites: a site's calls are its counter's, of all rows, and no calls of a function; older
// readers, who would take them for these, refuse such a table.
func TestSites(t *testing.T) {
	l := tabletest.Create(t, "sites", sitesSpec())
	for row := range uint32(2) {
		l.Row(layout.Row{Index: row, State: layout.RowLive, Kind: layout.RowThread, Pid: 1, Tid: 1 + row})
		l.Set(row, 10, 20, 30, 40, 12, 99, 7)
	}
	want := []uint64{24, 14, 0}
	if got := callsOf(t, l.Path); !slices.Equal(got, want) {
		t.Errorf("%d, not %d", got, want)
	}
	if v := l.Load(layout.HdrVersion); v <= layout.VersionBlocks {
		t.Errorf("version %d", v)
	}
	tab, err := table.OpenMost(l.Path, 1) // not simple: all functions are there
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	s := tabletest.Snapshot(t, tab)
	flow, err := tab.Flow(s)
	if err != nil || flow != nil || !tab.HasSites() || tab.HasBlocks() || len(s.Calls) != len(tab.Functions) || s.Total() != 200 || s.Rows[0].Calls != 100 {
		t.Errorf("%d calls of %d functions, %v, %v", s.Total(), len(s.Calls), flow, err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := edit.Copy(l.Path, copied); err != nil {
		t.Fatal(err)
	}
	if got := callsOf(t, copied); !slices.Equal(got, want) {
		t.Errorf("of a copy: %d, not %d", got, want)
	}
	if err := edit.Reset(l.Path); err == nil {
		t.Error("they can be reset")
	}
	without := tabletest.Open(t, tabletest.Create(t, "without", tabletest.Spec()).Path)
	if sites, err := without.Sites(); err != nil || sites != nil || without.HasSites() {
		t.Errorf("%v, %v where there are none", sites, err)
	}
	empty := sitesSpec()
	empty.Sites = &build.Sites{Each: pointers([]layout.Site{})}
	if none := tabletest.Open(t, tabletest.Create(t, "empty", empty).Path); !none.HasSites() {
		t.Error("nobody knows that they were asked for")
	}
}

// TestHostileSites: entries that cannot be are an error.
func TestHostileSites(t *testing.T) {
	l := tabletest.Create(t, "sites", sitesSpec())
	seed, err := os.ReadFile(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(b, site []byte){
		"caller":         func(_, site []byte) { site[layout.StCaller] = 7 },
		"callee":         func(_, site []byte) { site[layout.StCallee+3] = 1 },
		"another object": func(_, site []byte) { site[layout.StCallee] = 5 },
		"a function's":   func(_, site []byte) { site[layout.StCounter] = 3 },
		"behind all":     func(_, site []byte) { site[layout.StCounter] = 7 },
		"a hole":         func(_, site []byte) { clear(site[:layout.StEntrySize]) },
		"more counters":  func(b, _ []byte) { b[layout.HdrSites+layout.SecCount] = 2 },
		"where they are": func(b, _ []byte) { b[layout.HdrSites+layout.SecOffset+6] = 1 },
	} {
		b := bytes.Clone(seed)
		spoil(b, b[l.Sites.Offset:])
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
		if err == nil {
			_, err = tab.Sites()
		}
		if !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
