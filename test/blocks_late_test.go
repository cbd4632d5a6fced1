package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Blocks of libraries that a program loads while it runs.

const (
	lateRounds  = 700
	lateOpens   = 5 // in the parent and in the child
	lateWorkers = 4 // each time
)

// lateSpins is how often the loop of late_spin goes round in testdata/lateblocks.c.
func lateSpins() uint64 {
	each := uint64(0)
	for i := range lateRounds {
		if i%7 == 0 {
			each++
		}
		each += 2 + uint64(i%2)*2 + 4
	}
	const constructor = 5
	return lateOpens * (lateWorkers*each + constructor)
}

// lateRuns is how often the blocks of a function of libraries have run that have run most in
// each object, and how many objects have some.
func lateRuns(t *testing.T, path, library, function string) (runs uint64, objects int) {
	t.Helper()
	tab, flow := flowOf(t, path)
	most := map[uint16]uint64{}
	for i := range flow.Blocks {
		f := &tab.Functions[flow.Blocks[i].Function]
		if o := &tab.Objects[f.Object]; f.Name == function && o.Path == library && o.Flags&layout.ObjLate != 0 {
			most[f.Object] = max(most[f.Object], flow.Blocks[i].Runs)
		}
	}
	for _, n := range most {
		runs += n
	}
	return runs, len(most)
}

func lateBlocks(t *testing.T, flags ...string) (program string, libraries []string) {
	t.Helper()
	gcc := need(t, "gcc")
	for range 2 {
		libraries = append(libraries, compile(t, gcc, append(flags, "-Wall", "-Werror", "-shared", "-fPIC"), "lateblockslib.c"))
	}
	return compile(t, gcc, []string{"-O1", "-Wall", "-Werror", "-pthread"}, "lateblocks.c"), libraries
}

// TestBlocksLate: blocks of a library are counted each time that it is loaded, in threads and a
// child, also when the program is killed while another is being loaded.
func TestBlocksLate(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range lane.Some([][]string{{"-O2"}, {"-O0"}, {"-O3", "-fcf-protection=full"}}, 2) {
		program, libraries := lateBlocks(t, flags...)
		for _, way := range lane.Some([][]string{{"--blocks"}, {"--blocks", "--cache=false", "--objects", "all"}, {"--blocks", "--lock"}, {"--blocks", "--threshold", "100", "--keep-calls"},
			{"--blocks", "--edges"}, {"--trips"}, {"--blocks", "--control"}, {"--blocks=late_*"}}, 0, 1, 4, 6) {
			for _, how := range []string{"all", "killed"} {
				t.Run(strings.Join(append(append(slices.Clone(flags), way...), how), " "), func(t *testing.T) {
					t.Parallel()
					args := []string{program, how, fmt.Sprint(lateRounds), libraries[0]}
					if how == "killed" {
						args = append(args, libraries[1])
					}
					without := run(t, cmd(args...))
					with, path := countedAt(t, cmd(args...), way...)
					same(t, without, with)
					if n, objects := lateRuns(t, path, libraries[0], "late_spin"); n != lateSpins() || objects != lateOpens {
						t.Errorf("the loop of late_spin: %d times in %d objects, not %d in %d", n, objects, lateSpins(), lateOpens)
					}
				})
			}
		}
	}
}

// TestBlocksLateExact: each block of a library has run as often as callgrind says.
func TestBlocksLateExact(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range lane.Some([][]string{{"-O0"}, {"-O2"}, {"-Os", "-fcf-protection=full"}, {"-O2", "-fno-plt", "-fno-jump-tables"}}, 1) {
		program, libraries := lateBlocks(t, flags...)
		args := []string{program, "alone", fmt.Sprint(lateRounds), libraries[0]}
		want := callgrindRuns(t, args...)
		with, path := countedAt(t, cmd(args...), "--blocks")
		same(t, run(t, cmd(args...)), with)
		compareBlocksOf(t, path, want, func(o *layout.Object) bool { return o.Path == libraries[0] })
		for _, name := range []string{"by_table", "by_labels"} {
			if n, _ := lateRuns(t, path, libraries[0], name); n == 0 {
				t.Errorf("%v: the blocks of %s are not counted", flags, name)
			}
		}
	}
}

// TestBlocksLateViews: all views read a table with blocks of libraries that came later.
func TestBlocksLateViews(t *testing.T) {
	lane.Parallel(t)
	hotspots := build(t, "hotspots")
	program, libraries := lateBlocks(t, "-O1")
	r, path := countedAt(t, cmd(program, "all", fmt.Sprint(lateRounds), libraries[0]), "--blocks")
	if r.status != 0 {
		t.Fatalf("%+v", r)
	}
	dir := t.TempDir()
	for _, row := range []struct {
		says string
		args []string
	}{
		{"late_spin", []string{"report", "--sort", "instructions", "--loads", path}},
		{"late_work", []string{"report", "--format", "csv", path}},
		{"dec ", []string{"annotate", "late_spin", path}},
		{"late_spin", []string{"loops", path}},
		{"by_table of ", []string{"calls", "--function", "late_spin", path}},
		{"late_work", []string{"calls", "--inclusive", path}},
		{"late_spin", []string{"show", "late_spin", path}},
		{"", []string{"diff", path, path}},
		{"", []string{"export", path, "-o", filepath.Join(dir, "callgrind")}},
		{"", []string{"export", "--format", "pprof", path, "-o", filepath.Join(dir, "pprof")}},
		{"", []string{"snapshot", path, "-o", filepath.Join(dir, "copy")}},
		{"late_spin", []string{"report", filepath.Join(dir, "copy")}},
	} {
		if r := run(t, cmd(append([]string{hotspots}, row.args...)...)); r.status != 0 || !strings.Contains(r.stdout, row.says) {
			t.Errorf("%v: %+v", row.args, r)
		}
	}
	if got := read(t, filepath.Join(dir, "callgrind")); !strings.Contains(got, "late_spin") {
		t.Error("late_spin is not in the export")
	}
	whole, part := readReport(t, path), readReport(t, filepath.Join(dir, "copy"))
	if a, b := whole.late(libraries[0], "late_spin"), part.late(libraries[0], "late_spin"); a != b || a == 0 {
		t.Errorf("late_spin: %d calls, %d in a copy", a, b)
	}
}

// TestBlocksLateFull: where the table has no room for its blocks a library is counted by call,
// and report says so.
func TestBlocksLateFull(t *testing.T) {
	lane.Parallel(t)
	program, libraries := lateBlocks(t, "-O1")
	for _, flags := range [][]string{{"--cache=false"}, nil, nil} { // then cold, and warm
		path := filepath.Join(t.TempDir(), "table")
		args := []string{program, "full", fmt.Sprint(lateRounds), libraries[0], path, fmt.Sprint(layout.HdrBlocks)}
		without := run(t, cmd(args...))
		with := run(t, cmd(append(append([]string{build(t, "hotspots"), "run", "--blocks", "--summary", "0", "-o", path}, append(flags, "--")...), args...)...))
		same(t, without, with)
		if n, objects := lateRuns(t, path, libraries[0], "late_spin"); n != 0 || objects != 0 {
			t.Errorf("late_spin: %d runs in %d objects", n, objects)
		}
		rep := readReport(t, path)
		if n := rep.late(libraries[0], "late_work"); n != lateOpens*lateWorkers || rep.ObjectsMissed != 0 {
			t.Errorf("late_work: %d calls, not %d; missed: %+v", n, lateOpens*lateWorkers, rep.Missed)
		}
		if r := run(t, cmd(build(t, "hotspots"), "report", path)); !strings.Contains(r.stdout, "blocks of "+libraries[0]+" are not counted, only its calls") {
			t.Errorf("%+v", r)
		}
	}
}

// TestBlocksLatePython: extension modules, and what they link, do what they do without, and
// each of their instructions has run as often as callgrind says (make long).
func TestBlocksLatePython(t *testing.T) {
	lane.Parallel(t)
	python := "/usr/bin/python3.11"
	needFile(t, python)
	const script = `import json, sqlite3, zlib, bz2
c = sqlite3.connect(":memory:")
c.execute("create table t(a, b)")
c.executemany("insert into t values(?, ?)", [(i, str(i * 7919)) for i in range(300)])
print(c.execute("select sum(a), max(b), count(*) from t where b like '%7%'").fetchone())
print(json.loads(json.dumps({"a": [1, 2.5, "x"], "b": None})), zlib.crc32(zlib.compress(b"abc" * 1000)), len(bz2.compress(b"abc" * 1000)))`
	c := cmd(python, "-S", "-c", script)
	libraries := []string{"/usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6", "/usr/lib/x86_64-linux-gnu/libbz2.so.1.0.4", "/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so"}
	without := run(t, c)
	var want map[string]map[uint64]uint64
	if lane.Long {
		want = callgrindRuns(t, python, "-S", "-c", script)
	}
	for range 2 { // cold, warm
		with, path := countedAt(t, c, "--blocks")
		same(t, without, with)
		for _, library := range libraries {
			if want == nil {
				if tab, flow := flowOf(t, path); !slices.ContainsFunc(flow.Blocks, func(b table.Block) bool {
					return b.Runs > 0 && tab.Objects[tab.Functions[b.Function].Object].Path == library
				}) {
					t.Errorf("no block of %s ran", library)
				}
				continue
			}
			compareBlocksOf(t, path, want, func(o *layout.Object) bool { return o.Path == library })
		}
	}
}

// compareBlocksOf compares the blocks of some objects with what callgrind says.
func compareBlocksOf(t *testing.T, path string, want map[string]map[uint64]uint64, of func(*layout.Object) bool) {
	t.Helper()
	tab, blocks := blocksOf(t, path)
	compareRuns(t, tab, slices.DeleteFunc(blocks, func(b table.Block) bool { return !of(&tab.Objects[tab.Functions[b.Function].Object]) }), want)
}
