//go:build long

package test

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// TestCacheLateMany: of a process of more than 256 objects those that it loads are planned,
// though there are plans of them: all are counted.
func TestCacheLateMany(t *testing.T) {
	gcc := need(t, "gcc")
	const libraries, most = 300, 256
	program, first := compile(t, gcc, []string{"-O1"}, "latecopies.c"), compile(t, gcc, []string{"-shared", "-fPIC", "-O1"}, "latestep.c")
	dir := t.TempDir()
	path := func(i int) string { return filepath.Join(dir, strconv.Itoa(i)+".so") }
	for i := range libraries {
		copyFile(t, first, path(i))
	}
	settle(t, path(libraries-1))
	p := newPlanned(t, cmd(program, dir, strconv.Itoa(libraries)), "preload")
	for start := range 2 {
		r, rep, _, _ := p.start(t)
		same(t, run(t, p.command), r)
		var kept int
		for i := range libraries {
			of := rep.of(path(i))
			if !slices.ContainsFunc(of, func(f function) bool { return f.Name == "step" && f.Calls == 1 }) {
				t.Errorf("start %d: %s: %v", start, path(i), of)
			}
			if lateFlags(t, rep, path(i))&layout.ObjCached != 0 {
				kept++
			}
		}
		if start == 0 && kept != 0 || start == 1 && (kept == 0 || kept >= most) {
			t.Errorf("start %d: %d libraries began with a plan", start, kept)
		}
	}
}
