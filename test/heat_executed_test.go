package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Pages of programs that go on as others.

func buildGoesOn(t *testing.T) string {
	return compile(t, need(t, "gcc"), []string{"-O1", "-pthread", "-Wall", "-Werror", "-falign-functions=32"}, "heat_goes_on.c")
}

// pagesOfImages are the pages of each program that ran in the process, as %v has them, by how many had
// the same; and those of the last, which has the name that the user gave.
func pagesOfImages(t *testing.T, table string) (all map[string]int, last string) {
	t.Helper()
	files, _ := filepath.Glob(table + "*.heat") // the pattern is sound
	all = map[string]int{}
	for _, file := range files {
		pages := fmt.Sprint(touchedPages(t, strings.TrimSuffix(file, ".heat")))
		if all[pages]++; file == table+".heat" {
			last = pages
		}
	}
	return all, last
}

// TestHeatGoesOn: each program that runs in the process has its own pages, and no others; so has one of
// which an exec is refused, or that is killed, or whose child lives on.
func TestHeatGoesOn(t *testing.T) {
	lane.Parallel(t)
	program := buildGoesOn(t)
	for _, row := range []struct {
		how   string
		pages []string // of all
		last  string
	}{
		{"chain 0", nil, "0:-w"}, {"chain 1", []string{"1:-w"}, "0:-w"}, {"chain 5", []string{"5:-w", "4:-w", "3:-w", "2:-w", "1:-w"}, "0:-w"},
		{"thread 9", []string{"9:-w"}, "0:-w"}, {"refused 9", []string{"9:-w 50:-w"}, "0:-w"}, {"stays 9", nil, "9:-w 50:-w"},
		{"killed 9", []string{"9:-w"}, "0:-w"}, {"forks 9", []string{"9:-w 70:-w"}, "0:-w"},
	} {
		for _, flags := range lane.Thin([][]string{{"--heat=pages"}, {"--heat=lines", "--objects", "main"}, {"--heat=threads"}, {"--heat=lines", "--control"}, {"--heat=pages", "--lock", "--cache=false"}, {"--heat=who"}}, 2) {
			t.Run(fmt.Sprint(row.how, flags), func(t *testing.T) {
				t.Parallel()
				c := cmd(append([]string{program}, strings.Fields(row.how)...)...)
				without := run(t, c)
				with, table := countedAt(t, c, flags...)
				same(t, without, with)
				want, wantLast := map[string]int{}, "map["+row.last+"]"
				for _, pages := range append(row.pages, row.last) {
					want["map["+pages+"]"]++
				}
				if got, last := pagesOfImages(t, table); !maps.Equal(got, want) || last != wantLast {
					t.Errorf("%v, not %v, the last %v", got, want, last)
				}
				rest, _ := filepath.Glob(table + "*") // the pattern is sound
				if len(rest) != 2*len(want) {
					t.Errorf("%q", rest)
				}
			})
		}
	}
}

// TestHeatTooManyGoOn: how many programs can be looked at that run in the process is said, once.
func TestHeatTooManyGoOn(t *testing.T) {
	lane.Parallel(t)
	const most, more = 64, 3
	c := cmd(buildGoesOn(t), "chain", strconv.Itoa(most+more-1))
	with, table := countedAt(t, c, "--heat=pages", "--objects", "main")
	says := "touched memory is not noted: 64 programs have run in this process, one after the other, and there is no room for more\n"
	if with.status != 0 || with.stdout != "done\n" || strings.Count(with.stderr, "dynprof: ") != 1 || !strings.HasSuffix(with.stderr, says) {
		t.Errorf("%+v", with)
	}
	all, last := pagesOfImages(t, table)
	if len(all) != most || last != "" {
		t.Errorf("%d: %v, the last %s", len(all), all, last)
	}
	for page := more; page < most+more; page++ {
		if all[fmt.Sprintf("map[%d:-w]", page)] != 1 {
			t.Errorf("page %d is missing: %v", page, all)
		}
	}
}

// heatSums is what was touched of a program's own file, and all that ran.
func heatSums(t *testing.T, table string) string {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "heat", table, "--format", "json"))
	var m struct {
		Program string
		Ended   bool `json:"mappings_at_end"`
		Areas   []struct {
			Name                             string
			Touched, Read, Written, Executed uint64
		}
		Slices []struct{ Instructions uint64 }
	}
	if err := json.Unmarshal([]byte(r.stdout), &m); r.status != 0 || err != nil || len(m.Slices) == 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	text := fmt.Sprint(m.Program, " ", m.Slices[len(m.Slices)-1].Instructions, " ", m.Ended)
	for _, a := range m.Areas {
		if a.Name == m.Program {
			text += fmt.Sprintf(" %+v", a)
		}
	}
	return text
}

// TestHeatWrapped: what a shell, or an interpreter, executes in its place has touched of itself what it
// touches where it is run directly, and has run as many instructions; it is shown in pictures, too.
func TestHeatWrapped(t *testing.T) {
	lane.Parallel(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("some words in a line\n", 5000)), 0o644); err != nil {
		t.Fatal(err)
	}
	wc := need(t, "wc")
	for _, flag := range lane.Thin([]string{"--heat=pages", "--heat=bytes"}, 2) {
		testWrapped(t, wc, text, flag)
	}
}

func testWrapped(t *testing.T, wc, text, flag string) {
	t.Helper()
	direct, table := countedAt(t, cmd(wc, "-w", text), flag)
	want := heatSums(t, table)
	script := filepath.Join(t.TempDir(), "wrapper")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nread x <"+text+"\nexec "+wc+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"sh", "-c", "exec " + wc + " -w " + text},
		{script, "-w", text},
		{need(t, "env"), "nice", "env", wc, "-w", text},
		{"/usr/bin/python3.11", "-S", "-c", fmt.Sprintf("import os; os.execv(%q, [%q, '-w', %q])", wc, wc, text)},
	} {
		c := cmd(args...)
		c.args[0] = need(t, args[0])
		with, table := countedAt(t, c, flag)
		same(t, direct, with)
		if got := heatSums(t, table); got != want {
			t.Errorf("%s %q: %s, not %s", flag, args, got, want)
		}
		picture := filepath.Join(t.TempDir(), "picture.png")
		r := run(t, cmd(build(t, "hotspots"), "heat", "picture", table, "-o", picture))
		if fi, err := os.Stat(picture); r.status != 0 || err != nil || fi.Size() == 0 {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestHeatExecuted: programs that are not looked at, those of children, and such as load no library, are
// told of wherever memory is shown; nobody is sent to --follow-exec, which is refused.
func TestHeatExecuted(t *testing.T) {
	hotspots, table := build(t, "hotspots"), filepath.Join(t.TempDir(), "a.dynprof")
	static := compile(t, need(t, "gcc"), []string{"-O1", "-static", "-pthread"}, "heat_goes_on.c")
	for _, how := range [][]string{{"--heat=pages"}, {"--region", "main"}} {
		for _, args := range [][]string{{"sh", "-c", "cat /dev/null; true"}, {"sh", "-c", "exec " + static + " chain 0"}} {
			r := run(t, cmd(append(append(append([]string{hotspots, "run", "-o", table}, how...), "--"), args...)...))
			if r.status != 0 || !strings.Contains(r.stderr, "(a program that it executed is not counted: memory is looked at of one process, run it by itself)") {
				t.Errorf("%q: %+v", how, r)
			}
			shown := map[string]string{"--heat=pages": "heat", "--region": "regions"}[how[0]]
			if r := run(t, cmd(hotspots, shown, table)); !strings.Contains(r.stdout, "; and a program that it executed: run that by itself") {
				t.Errorf("%q: %+v", how, r)
			}
		}
	}
	if r := run(t, cmd(hotspots, "run", "--blocks", "-o", table, "--", "sh", "-c", "cat /dev/null; true")); !strings.Contains(r.stderr, "is not counted: hotspots run --follow-exec)") {
		t.Errorf("without: %+v", r)
	}
}

// TestHeatGoesOnFiltered: what goes on behind a filter that may kill is not looked at, and lives.
func TestHeatGoesOnFiltered(t *testing.T) {
	lane.Parallel(t)
	filter := compile(t, need(t, "gcc"), []string{"-O1"}, "successorfilter.c")
	for _, number := range []int{syscall.SYS_FUTEX, syscall.SYS_PREAD64} {
		c := cmd(filter, strconv.Itoa(number), "0x80000000", buildGoesOn(t), "chain", "2")
		without := run(t, c)
		with, _ := countedAt(t, c, "--heat=pages")
		same(t, without, with)
	}
}
