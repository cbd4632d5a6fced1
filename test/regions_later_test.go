package test

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// extentOf is how many bytes an object takes where it is loaded, as its headers have it.
func extentOf(t *testing.T, path string) uint64 {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	low, high := ^uint64(0), uint64(0)
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			low, high = min(low, p.Vaddr), max(high, p.Vaddr+p.Memsz)
		}
	}
	return high - low
}

// ofFill is what fill of testdata/regionsbss.c has done with regions.
func ofFill(l *regionList) (loads, stores uint64) {
	for _, g := range l.Regions {
		for _, f := range g.Functions {
			if f.Function == "fill" {
				loads, stores = loads+f.Loads, stores+f.Stores
			}
		}
	}
	return loads, stores
}

// linkAs is a link to a file by another name.
func linkAs(t *testing.T, file, name string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// TestRegionsLaterAll: all of a library that is loaded later, twice, is all that its headers say, with
// what is in no file: planned anew, and with plans that are kept, and where it is linked for
// another address than 0.
func TestRegionsLaterAll(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1", "-DLATE"}, "regionsbss.c")
	for _, how := range [][]string{nil, {"-Wl,-Ttext-segment=0x10000000"}} {
		library := compile(t, gcc, append([]string{"-O1", "-shared", "-fPIC"}, how...), "regionsbss.c")
		settle(t, library)
		library = linkAs(t, library, "later.so")
		p := newPlanned(t, cmd(program, library, "2"), "run")
		p.flags = []string{"--region", "mine=" + library}
		for starts, done := 0, false; !done; starts++ {
			r, rep, cached, all := p.start(t)
			l := regionsOf(t, rep.table)
			loads, stores := ofFill(&l)
			want := extentOf(t, library)
			if r.status != 0 || len(l.Regions) != 2 || loads < 200 || loads > 204 || stores != 200 || l.Regions[0].Bytes != want || l.Regions[1].Bytes != want {
				t.Fatalf("%v, %d of %d plans are used: %d loads, %d stores, %d bytes wanted: %+v: %+v", how, cached, all, loads, stores, want, r, l.Regions)
			}
			if done = cached == all && isWarm(t, rep); starts > 20 {
				t.Fatalf("%d of %d plans are used", cached, all)
			}
		}
	}
}

// TestRegionsGone: the region of a library that is loaded later ends with it: it may be loaded more
// often than there are regions at a time. What a fork's child lets go of its parent still has.
func TestRegionsGone(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1", "-DLATE"}, "regionsbss.c")
	library := linkAs(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "regionsbss.c"), "later.so")
	for _, c := range []struct {
		args []string
		want uint64
	}{{[]string{"300"}, 100}, {[]string{"2", "fork"}, 200}} {
		r, table := countedAt(t, cmd(append([]string{program, library}, c.args...)...), "--region", library+":numbers")
		l := regionsOf(t, table)
		if n, _ := strconv.Atoi(c.args[0]); r.status != 0 || len(l.Regions) != n {
			t.Fatalf("%v: %d regions: %+v", c.args, len(l.Regions), r)
		}
		for _, g := range l.Regions {
			if !g.Removed || g.Loads != c.want || g.Stores != c.want {
				t.Fatalf("%v: %+v", c.args, g)
			}
		}
	}
}

// TestRegionsLaterNamed: a library that is loaded later may be named by its file or by its DT_SONAME,
// whatever it was opened by, and have a + in its name.
func TestRegionsLaterNamed(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1", "-DLATE"}, "regionsbss.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC", "-Wl,-soname,libother++.so.1"}, "regionsbss.c")
	for _, file := range []string{"lib++x.so", "libother++.so.1"} {
		file = linkAs(t, library, file)
		for _, what := range []string{file, file + ":numbers", file + ":.bss"} {
			r, table := countedAt(t, cmd(program, file, "2"), "--region", what)
			l := regionsOf(t, table)
			if loads, stores := ofFill(&l); r.status != 0 || len(l.Regions) != 2 || loads < 200 || stores != 200 || !strings.Contains(r.stderr, "not loaded yet") || !strings.Contains(r.stderr, what) {
				t.Errorf("%s: %d loads, %d stores: %+v: %+v", what, loads, stores, r, l.Regions)
			}
		}
	}
}
