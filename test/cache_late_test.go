package test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// lateFlags are those of a library that came later; 0 if it is not there.
func lateFlags(t *testing.T, rep *report, library string) (flags uint32) {
	t.Helper()
	tab, err := table.Open(rep.table)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	for i := range tab.Objects {
		if o := &tab.Objects[i]; o.Path == library && o.Flags&layout.ObjLate != 0 {
			flags |= o.Flags
		}
	}
	return flags
}

// TestCacheLate: the plan of a large library that is loaded later is kept, too, and with it
// a program does and counts what it does without; a small one's is not worth it.
func TestCacheLate(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "largelate.c")
	large := compile(t, gcc, []string{"-shared", "-fPIC", manySource(t, 20_000, 4_000_000, next)})
	small := compile(t, gcc, []string{"-shared", "-fPIC", manySource(t, 100, 20_000, next)})
	time.Sleep(50 * time.Millisecond) // of what has just been written no plan is kept
	for _, row := range []struct {
		library string
		cached  uint32
	}{{large, layout.ObjCached}, {small, 0}} {
		for _, way := range lane.Thin([][]string{nil, {"DYNPROF_OBJECTS=all", "DYNPROF_THRESHOLD=100"}, {"DYNPROF_KEEP_CALLS=1"}}, 2) {
			p := newPlanned(t, cmd(program, "1", row.library), "run", way...)
			without := *p
			without.env = append(way[:len(way):len(way)], "DYNPROF_CACHE=0")
			want, wantReport, _, _ := without.start(t)
			if f := lateFlags(t, wantReport, row.library); f&layout.ObjLate == 0 || f&layout.ObjCached != 0 {
				t.Fatalf("%s: without plans it has the flags %#x", way, f)
			}
			for i, by := range []string{"run", "run", "preload"} {
				q := *p
				q.by = by
				r, rep, _, _ := q.start(t)
				alike(t, strings.Join(way, " "), r, rep, want, wantReport)
				if f := lateFlags(t, rep, row.library); i > 0 && f&layout.ObjCached != row.cached {
					t.Errorf("%s, by %s: %s has the flags %#x", way, by, filepath.Base(filepath.Dir(row.library)), f)
				}
			}
		}
	}
}
