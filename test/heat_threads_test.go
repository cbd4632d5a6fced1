package test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Which threads touch which page, by hotspots run --heat=threads.

// byWhom is who has read and who has written each of a program's own pages, by number.
func byWhom(t *testing.T, table string) map[int][2]string {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "heat", table, "--format", "csv"))
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if r.status != 0 || err != nil || len(rows) == 0 || !slices.Equal(rows[0][8:11], []string{"threads", "readers", "writers"}) {
		t.Fatalf("%+v: %v", r, err)
	}
	all := map[int][2]string{}
	for _, row := range rows[1:] {
		first, err := strconv.ParseUint(row[1], 0, 64)
		n, err2 := strconv.Atoi(row[2])
		if err != nil || err2 != nil {
			t.Fatalf("%q: %v, %v", row, err, err2)
		}
		for k := range n {
			if page := int(first-heatBase)/4096 + k; first >= heatBase && page < heatPages {
				all[page] = [2]string{row[9], row[10]}
			}
		}
	}
	return all
}

// saidByWhom is what the program says.
func saidByWhom(text string) map[int][2]string {
	all := map[int][2]string{}
	for line := range strings.Lines(text) {
		var page int
		var by [2]string
		if n, _ := fmt.Sscanf(line, "page %d %s %s", &page, &by[0], &by[1]); n == 3 {
			for i, text := range by {
				list := strings.Split(strings.Trim(text, "-"), ",")
				by[i] = strings.Join(list, ";")
			}
			all[page] = by
		}
	}
	return all
}

// TestHeatThreads: the threads that read and that write each page are those that say so, of children
// too.
func TestHeatThreads(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	for _, flags := range lane.Some([][]string{{"-O1"}, {"-O2", "-no-pie"}, {"-O0"}}, 0) {
		program := compile(t, gcc, append(flags, "-Wall", "-Werror", "-pthread", "-falign-functions=32"), "heat_threads.c")
		for _, way := range lane.Some([]string{"", "fork"}, 0, 1) {
			r, table := countedAt(t, cmd(program, way), "--heat=threads", "--objects", "main")
			if got, want := byWhom(t, table), saidByWhom(r.stdout); !maps.Equal(got, want) || len(want) < 6*6 {
				t.Errorf("%v %s: %v, not %v", flags, way, got, want)
			}
		}
	}
}

// toldThreads is what the JSON says of threads.
type toldThreads struct {
	Threads []struct {
		Tid     int
		Several bool
	}
	More  bool `json:"threads_more"`
	Areas []struct {
		Name    string
		Touched int
		Shared  int
		Threads int
	}
}

func toldOf(t *testing.T, table string) (told toldThreads) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "heat", table, "--format", "json"))
	if err := json.Unmarshal([]byte(r.stdout), &told); err != nil || r.status != 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	return told
}

// TestHeatThreadsUntold: where threads are not told apart that is said: those that had a row one after
// the other, more than there is room for, and all where they share one.
func TestHeatThreadsUntold(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-pthread", "-falign-functions=32"}, "heat_threads.c")
	for _, row := range []struct {
		way     string
		flags   []string
		threads int
		more    bool
	}{{"again", nil, 2, false}, {"many", nil, 256, true}, {"", []string{"--lock"}, 1, false}} {
		with, table := countedAt(t, cmd(program, row.way), append(row.flags, "--heat=threads", "--objects", "main")...)
		told := toldOf(t, table)
		several := 0
		for _, one := range told.Threads {
			if one.Several {
				several++
			}
		}
		if len(told.Threads) != row.threads || told.More != row.more || several == 0 {
			t.Errorf("%s: %d threads, %d of them several, more: %v: %+v", row.way, len(told.Threads), several, told.More, with)
		}
		if r := run(t, cmd(build(t, "hotspots"), "heat", table)); r.status != 0 || strings.Contains(r.stdout, "more than 256 at a time") != row.more {
			t.Errorf("%+v", r)
		}
	}
}

// TestHeatThreadsPages: pages are those that are noted without threads.
func TestHeatThreadsPages(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O2", "-falign-functions=32"}, "heat.c")
	for _, way := range lane.Some([][]string{{"--objects", "main"}, {"--edges"}, {"--trips"}, {"--lock"}}, 0, 3) {
		without := run(t, cmd(program))
		with, table := countedAt(t, cmd(program), append([]string{"--heat=threads"}, way...)...)
		same(t, without, with)
		want, _ := saidPages(t, with.stdout)
		if got := touchedPages(t, table); !maps.Equal(got, want) {
			t.Errorf("%v: %v, not %v", way, got, want)
		}
	}
	wraps := compile(t, gcc, []string{"-O1", "-falign-functions=32"}, "heatwraps.c")
	notesAll(t, run(t, cmd(wraps)), cmd(wraps), "--heat=threads")
}
