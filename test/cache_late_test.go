package test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

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

// TestCacheLate: plans of libraries that are loaded later are kept, too, and with them a
// program does and counts what it does without.
func TestCacheLate(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "largelate.c")
	large := compile(t, gcc, []string{"-shared", "-fPIC", manySource(t, 20_000, 4_000_000, next)})
	small := compile(t, gcc, []string{"-shared", "-fPIC", manySource(t, 100, 20_000, next)})
	for _, library := range []string{large, small} {
		for _, way := range lane.Thin([][]string{nil, {"DYNPROF_OBJECTS=all", "DYNPROF_THRESHOLD=100"}, {"DYNPROF_KEEP_CALLS=1"}}, 2) {
			p := newPlanned(t, cmd(program, "1", library), "run", way...)
			without := *p
			without.env = append(way[:len(way):len(way)], "DYNPROF_CACHE=0")
			want, wantReport, _, _ := without.start(t)
			if f := lateFlags(t, wantReport, library); f&layout.ObjLate == 0 || f&layout.ObjCached != 0 {
				t.Fatalf("%s: without plans it has the flags %#x", way, f)
			}
			for i, by := range []string{"run", "run", "preload"} {
				q := *p
				q.by = by
				r, rep, _, _ := q.start(t)
				alike(t, strings.Join(way, " "), r, rep, want, wantReport)
				if f := lateFlags(t, rep, library); i > 0 && f&layout.ObjCached == 0 {
					t.Errorf("%s, by %s: %s has the flags %#x", way, by, filepath.Base(filepath.Dir(library)), f)
				}
			}
		}
	}
}

// TestCacheLateAlone: with plans there is no planner: none can be made here.
func TestCacheLateAlone(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot make a pid namespace")
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "largelate.c")
	library := compile(t, gcc, []string{"-shared", "-fPIC", manySource(t, 100, 20_000, next)})
	p := newPlanned(t, cmd(program, "1", library), "run")
	_, wantReport, _, _ := p.start(t)
	want := wantReport.of(library)
	p.args = append(p.args, "alone")
	for _, by := range []string{"run", "preload"} {
		q := *p
		q.by = by
		r, rep, _, _ := q.start(t)
		same(t, run(t, q.command), r)
		if !reflect.DeepEqual(rep.of(library), want) {
			t.Errorf("%v, not %v", rep.of(library), want)
		}
	}
	p.env = []string{"DYNPROF_CACHE=0"}
	if _, rep, _, _ := p.start(t); len(rep.of(library)) > 0 {
		t.Error("it is counted without a plan")
	}
}

// TestCacheLateUser: who a program is for a while cannot give it plans: it has the rights of
// another still.
func TestCacheLateUser(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot be another user")
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "largelate.c")
	library := readable(t, compile(t, gcc, []string{"-shared", "-fPIC", manySource(t, 100, 20_000, next)}))
	p := newPlanned(t, cmd(program, "1", library), "preload")
	p.start(t)
	p.args = append(p.args, "user")
	for _, user := range []int{0, 65534} {
		if err := filepath.WalkDir(p.home, func(path string, _ os.DirEntry, _ error) error { return os.Chown(path, user, user) }); err != nil {
			t.Fatal(err)
		}
		r, rep, _, _ := p.start(t)
		same(t, run(t, p.command), r)
		if f := lateFlags(t, rep, library); f&layout.ObjLate == 0 || f&layout.ObjCached != 0 {
			t.Errorf("with plans of user %d the library has the flags %#x", user, f)
		}
	}
}

// TestCacheLateFull: where the table's file system has no room for a library's functions the
// program's own thread, which adds them, does not store to a hole.
func TestCacheLateFull(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot mount a small file system")
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "largelate.c")
	library := compile(t, gcc, []string{"-shared", "-fPIC", manySource(t, 20_000, 400_000, next)})
	p := newPlanned(t, cmd(program, "1", library), "run")
	p.start(t)
	dir := t.TempDir()
	for size, fits := range map[string]bool{"400k": false, "700k": false, "20m": true} {
		if r := run(t, cmd("mount", "-t", "tmpfs", "-o", "size="+size, "none", dir)); r.status != 0 {
			t.Skipf("%+v", r)
		}
		t.Cleanup(func() { unmount(t, dir) })
		table := filepath.Join(dir, "table")
		c := p.command
		c.env = append(c.env, "XDG_CACHE_HOME="+p.home, "DYNPROF_OUTPUT="+table, "LD_PRELOAD="+build(t, "libdynprof.so"))
		same(t, run(t, p.command), run(t, c))
		rep := readReport(t, table)
		if !isWarm(t, rep) || (len(rep.of(library)) > 0) != fits || (lateFlags(t, rep, library)&layout.ObjCached != 0) != fits {
			t.Errorf("%s: %d functions, warm %t, flags %#x", size, len(rep.of(library)), isWarm(t, rep), lateFlags(t, rep, library))
		}
	}
}

// TestCacheLocked: a start with plans reads a file of which the times tell nothing, as of
// one that has just been written, and lets go of no lock that the program holds on it.
func TestCacheLocked(t *testing.T) {
	lane.Parallel(t)
	program := copyFile(t, compile(t, need(t, "gcc"), []string{"-O1"}, "lockexec.c"), filepath.Join(t.TempDir(), "program"))
	for _, args := range [][]string{{program}, {program, "again"}} {
		without := run(t, cmd(args...))
		p := newPlanned(t, cmd(args...), "preload", "DYNPROF_FOLLOW_EXEC=1")
		for i := range 3 {
			with, rep, _, _ := p.start(t)
			same(t, without, with)
			if len(args) == 1 {
				continue // the table is of what it was before the exec
			}
			if n := rep.calls(t, "step"); n != 100 || isWarm(t, rep) != (i > 0) {
				t.Errorf("start %d: step: %d calls; without a planner: %t", i, n, isWarm(t, rep))
			}
		}
	}
}

// TestCacheStopped: a process that is stopped while it adds a library to the table by
// itself, as it starts with plans, does not keep others from loading theirs.
func TestCacheStopped(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "latestopped.c")
	var libraries []string
	for range 40 {
		libraries = append(libraries, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c"))
	}
	home := cacheHome(t)
	for range 2 { // cold and warm
		path := filepath.Join(t.TempDir(), "table")
		c := cmd(append([]string{build(t, "hotspots"), "run", "-o", path, "--summary", "0", "--", program, path, fmt.Sprint(layout.HdrAppender)}, libraries...)...)
		c.env = []string{"XDG_CACHE_HOME=" + home}
		r := run(t, c)
		rounds := 0
		if _, err := fmt.Sscan(r.stderr, &rounds); err != nil || r.status != 0 || r.stdout != "all loaded\n" {
			t.Fatalf("%+v", r)
		}
		rep := readReport(t, path)
		for _, l := range libraries {
			if n := rep.late(l, "late_step"); n > uint64(10*rounds) || n < uint64(10*rounds) && rep.ObjectsMissed == 0 {
				t.Errorf("late_step: %d calls, not %d; missed %d", n, 10*rounds, rep.ObjectsMissed)
			}
		}
	}
}

// TestCacheCut: a program that has started with plans does not need their files any more:
// somebody may cut them short or write over them before it gives text back.
func TestCacheCut(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "cachecut.c")
	without := run(t, cmd(program, "true"))
	for _, row := range []struct{ name, how string }{
		{"kept", "true"},
		{"cut", "for f in $PLANS/*.plan; do chmod u+w $f; : >$f; done"},
		{"zeros", "for f in $PLANS/*.plan; do chmod u+w $f; dd if=/dev/zero of=$f bs=$(stat -c %s $f) count=1 conv=notrunc status=none; done"},
		{"gone", "rm $PLANS/*.plan"},
	} {
		t.Run(row.name, func(t *testing.T) {
			home := cacheHome(t)
			warmUp := newPlanned(t, cmd(program, "true"), "run")
			warmUp.home, warmUp.env = home, nil
			warmUp.start(t)
			p := newPlanned(t, cmd(program, row.how), "run")
			p.home, p.env = home, []string{"PLANS=" + home + "/dynprof/plans"}
			with, rep, _, _ := p.start(t)
			same(t, without, with)
			if !isWarm(t, rep) {
				t.Error("a planner ran")
			}
			if n := rep.calls(t, "step"); n != 1000 {
				t.Errorf("step: %d calls until its text was given back, not 1000", n)
			}
		})
	}
}
