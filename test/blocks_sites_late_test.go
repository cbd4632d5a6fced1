package test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Direct calls in libraries that a program loads while it runs.

func lateSites(t *testing.T, flags ...string) (program string, libraries []string) {
	t.Helper()
	gcc := need(t, "gcc")
	for range 2 {
		libraries = append(libraries, compile(t, gcc, append(flags, "-shared", "-fPIC", "-pthread", "-Dmain=work_here"), "sites.c"))
	}
	return compile(t, gcc, []string{"-O1", "-Wall", "-Werror", "-pthread"}, "latesites.c"), libraries
}

// TestSitesLate: each direct call of a library is an edge, exactly, each time that it is loaded,
// with threads on all CPUs, in children, killed while another library is being loaded, from
// plans, with lock.
func TestSitesLate(t *testing.T) {
	lane.Parallel(t)
	hotspots := build(t, "hotspots")
	for _, flags := range lane.Some([][]string{{"-O2"}, {"-O3", "-fcf-protection=full"}}, 0) {
		program, libraries := lateSites(t, flags...)
		for _, args := range [][]string{{"3", "1", "200"}, {"1", "4", "3000", "fork"}, {"1", "2", "700", "kill"}} {
			for _, way := range lane.Some([][]string{nil, {"--cache=false"}, {"--lock"}, {"--threshold", "10"}, {"--control"}, {"--objects", "all"}}, 0, 2, 4) {
				t.Run(strings.Join(append(append(slices.Clone(flags), args...), way...), " "), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					for _, start := range []string{"cold", "warm"} {
						table := filepath.Join(dir, start)
						c := cmd(append(append(append([]string{hotspots, "run", "--edges", "--summary", "0", "-o", table}, way...), "--", program, libraries[0], libraries[1]), args...)...)
						c.env = []string{"XDG_CACHE_HOME=" + dir}
						r := run(t, c)
						if status := map[bool]int{true: 137}[args[len(args)-1] == "kill"]; r.status != status || r.stderr != "" {
							t.Fatalf("%+v", r)
						}
						compareLateSites(t, start, table, r.stdout)
						if rep := readReport(t, table); rep.ObjectsMissed != 0 {
							t.Errorf("%s: missed: %+v", start, rep.Missed)
						}
					}
				})
			}
		}
	}
}

func compareLateSites(t *testing.T, start, table, says string) {
	t.Helper()
	got, want := sitesOf(t, table, says)
	for e, n := range want {
		if got[e] != n {
			t.Errorf("%s: %v: %d calls, not %d", start, e, got[e], n)
		}
	}
	if len(want) < 20 || len(got) != len(want) {
		t.Errorf("%s: %d edges, not %d: %v", start, len(got), len(want), got)
	}
}

// TestSitesLateFull: where the table has no room for its call sites a library is counted by call,
// and it is said.
func TestSitesLateFull(t *testing.T) {
	lane.Parallel(t)
	hotspots := build(t, "hotspots")
	program, libraries := lateBlocks(t, "-O1")
	for _, full := range []bool{true, false} {
		for _, flags := range [][]string{{"--cache=false"}, nil, nil} { // then cold, and warm
			path := filepath.Join(t.TempDir(), "table")
			args := []string{program, "full", fmt.Sprint(lateRounds), libraries[0]}
			if full {
				args = append(args, path, fmt.Sprint(layout.HdrSites))
			}
			without := run(t, cmd(args...))
			with := run(t, cmd(append(append([]string{hotspots, "run", "--edges", "--summary", "0", "-o", path}, append(flags, "--")...), args...)...))
			same(t, without, with)
			rep := readReport(t, path)
			if n := rep.late(libraries[0], "late_work"); n != lateOpens*lateWorkers || rep.ObjectsMissed != 0 {
				t.Errorf("late_work: %d calls, not %d; missed: %+v", n, lateOpens*lateWorkers, rep.Missed)
			}
			kinds := map[string]uint64{}
			for _, e := range readEdges(t, path) {
				if e.Callee.Name == "by_table" {
					kinds[e.Kind] += e.Calls
				}
			}
			kind := map[bool]string{true: "elsewhere", false: "call"}[full]
			if want := uint64(lateRounds * lateOpens * lateWorkers); len(kinds) != 1 || kinds[kind] != want {
				t.Errorf("by_table: %v, not %d by %s", kinds, want, kind)
			}
			for _, row := range []struct{ args, says string }{
				{"report", "call sites of " + libraries[0] + " are not counted, only its calls: there was no room for them"},
				{"report --format json", `"sites_without_room":["` + libraries[0] + `"]`},
				{"calls", "and there was no room for those of " + libraries[0]},
				{"calls --format json", `"sites_without_room":["` + libraries[0] + `"]`},
			} {
				r := run(t, cmd(append(append([]string{hotspots}, strings.Fields(row.args)...), path)...))
				if strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(r.stdout, ": [", ":[")), " "), row.says) != full {
					t.Errorf("%s, full: %t: %+v", row.args, full, r)
				}
			}
		}
	}
}

// TestSitesLatePaused: sites of a library that comes while counting is paused do not count, nor
// those of one that is closed in the meantime.
func TestSitesLatePaused(t *testing.T) {
	lane.Parallel(t)
	gcc, dir := need(t, "gcc"), t.TempDir()
	library := compile(t, gcc, []string{"-O2", "-shared", "-fPIC", "-pthread", "-Dmain=work_here"}, "sites.c")
	source := write(t, filepath.Join(dir, "latepaused.c"), `
#include <dlfcn.h>
#include <stdio.h>
#include "dynprof.h"
static int (*work)(int, char **);
static void *open_it(char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	work = library ? (int (*)(int, char **))dlsym(library, "work_here") : 0;
	return library;
}
static void silently(char **argv, const char *rounds)
{
	char one[] = "1";
	char *args[] = {argv[0], one, (char *)rounds, 0};
	FILE *out = stdout;
	stdout = fopen("/dev/null", "w");
	work(3, args);
	fclose(stdout);
	stdout = out;
}
int main(int argc, char **argv)
{
	char one[] = "1", rounds[] = "100";
	char *args[] = {argv[0], one, rounds, 0};
	if (argc < 2 || !open_it(argv))
		return 2;
	void *first = dlopen(argv[1], RTLD_NOW);
	work(3, args);
	int err = dynprof_pause();
	silently(argv, "30");
	dlclose(first);
	dlclose(first);
	if (!(first = open_it(argv))) /* it comes while nothing counts */
		return 2;
	silently(argv, "70");
	err |= dynprof_resume();
	work(3, args);
	dlclose(first);
	err |= dynprof_pause();
	err |= dynprof_resume();
	return err;
}
`, 0o600)
	program := filepath.Join(dir, "latepaused")
	if r := run(t, cmd(gcc, "-O1", "-I../libdynprof", "-o", program, source)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	for _, way := range [][]string{nil, {"--control"}, {"--lock"}} {
		path := filepath.Join(t.TempDir(), "table")
		r := run(t, cmd(append(append([]string{build(t, "hotspots"), "run", "--edges", "--summary", "0", "-o", path}, way...), "--", program, library)...))
		if r.status != 0 || r.stderr != "" {
			t.Fatalf("%v: %+v", way, r)
		}
		compareLateSites(t, strings.Join(way, " "), path, r.stdout)
	}
}

// TestSitesLateCallgrind: of each call site of extension modules, and of what they link, callgrind
// says the same, from plans, too.
func TestSitesLateCallgrind(t *testing.T) {
	lane.Parallel(t)
	python := "/usr/bin/python3.11"
	needFile(t, python)
	script := `import _decimal, json
d = _decimal.Decimal
print(json.loads(json.dumps({"a": [1, 2.5, "x"], "b": None})), d(2).sqrt(), d("1.25") ** 9, d(10) / 7)`
	if lane.Long {
		script += `
import sqlite3
c = sqlite3.connect(":memory:")
c.execute("create table t(a, b)")
c.executemany("insert into t values(?, ?)", [(i, str(i * 7919)) for i in range(300)])
print(c.execute("select sum(a), max(b), count(*) from t where b like '%7%'").fetchone())`
	}
	args := []string{python, "-S", "-E", "-c", script}
	without, want := run(t, cmd(args...)), callgrindEdges(t, args...)
	modules := regexp.MustCompile(`/(_sqlite3|_json|_decimal)\.cpython|/libsqlite3\.so|/libz\.so|/libmpdec\.so`)
	for _, start := range []string{"cold", "warm"} {
		with, path := countedAt(t, cmd(args...), "--edges")
		same(t, without, with)
		tab, err := table.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer tab.Close()
		sites, err := tab.Sites()
		if err != nil {
			t.Fatal(err)
		}
		ran, wrong, objects := 0, 0, map[string]bool{}
		for _, s := range sites {
			caller, callee := &tab.Functions[s.Caller], &tab.Functions[s.Callee]
			o := &tab.Objects[caller.Object]
			if !s.IsCounted() || o.Flags&layout.ObjLate == 0 || !modules.MatchString(o.Path) {
				continue
			}
			if n := want[codeAt{o.Path, s.Address}][codeAt{o.Path, callee.Address}]; n != s.Calls {
				if wrong++; wrong < 20 {
					t.Errorf("%s: %s, %#x -> %#x: %d times, callgrind says %d", start, o.Path, s.Address, callee.Address, s.Calls, n)
				}
			}
			if s.Calls > 0 {
				ran++
				objects[o.Path] = objects[o.Path] || o.Flags&layout.ObjCached != 0
			}
		}
		t.Logf("%s: %d sites ran in %d objects; %d wrong", start, ran, len(objects), wrong)
		if ran < 50 || len(objects) < 2 || start == "warm" && slices.Contains(slices.Collect(maps.Values(objects)), false) {
			t.Errorf("%s: %d sites ran; objects, and whether there was a plan: %v", start, ran, objects)
		}
	}
}
