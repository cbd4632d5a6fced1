package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table"
)

// Trips of loops, by hotspots run --trips.

// executions are what a program says of a loop: how many have ended, in buckets, and how many
// were entered besides.
type executions struct {
	table.Histogram
	lost uint64
}

// saidTrips reads what testdata/trips.cc says of its loops.
func saidTrips(t *testing.T, text string) map[string]*executions {
	t.Helper()
	all := map[string]*executions{}
	for line := range strings.Lines(text) {
		name, what, found := strings.Cut(strings.TrimSpace(line), ": ")
		first, second, two := strings.Cut(what, " ")
		n, err := strconv.ParseUint(second, 10, 64)
		if !found || !two || err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		e := all[name]
		if e == nil {
			e = &executions{}
			all[name] = e
		}
		if first == "lost" {
			e.lost = n
			continue
		}
		trips, err := strconv.ParseUint(first, 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		e.Executions += n
		e.Buckets[table.BucketOf(trips)] += n
		e.Most = max(e.Most, trips)
		if e.Least == 0 || trips < e.Least {
			e.Least = trips
		}
	}
	return all
}

// countedTrips are the loops of the executable's functions, by name, and depth where there are
// several.
func countedTrips(t *testing.T, path string) map[string]*table.Loop {
	t.Helper()
	tab, flow := flowOf(t, path)
	all := map[string]*table.Loop{}
	for i := range flow.Loops {
		l := &flow.Loops[i]
		f := &tab.Functions[l.Function]
		if tab.Objects[f.Object].Path != tab.Program {
			continue
		}
		name := f.Name
		if name == "nested" {
			name = fmt.Sprint(name, " ", l.Depth)
		}
		all[name] = l
	}
	return all
}

// TestTrips: of each loop the executions that have ended are known by their trips, exactly, in
// threads and children, however they were left; others are missing from the sum.
func TestTrips(t *testing.T) {
	lane.Parallel(t)
	gpp := need(t, "g++")
	for _, flags := range lane.Some([][]string{{"-O1"}, {"-O2", "-no-pie"}, {"-O0"}, {"-O2", "-fcf-protection=full"}, {"-Os"}}, 3) {
		program := compile(t, gpp, append(flags, "-Wall", "-Werror", "-pthread"), "trips.cc")
		for _, way := range lane.Some([][]string{{"--objects", "main"}, {"--objects", "all", "--edges"}, {"--threshold", "10"}, {"--blocks=*"}, {"--translator", "-"}}, 2) {
			t.Run(strings.Join(append(slices.Clone(flags), way...), " "), func(t *testing.T) {
				t.Parallel()
				r, path := countedAt(t, cmd(program), append([]string{"--trips"}, way...)...)
				if r.status != 0 || !strings.HasSuffix(r.stderr, " 0 wrong\n") {
					t.Fatalf("%+v", r)
				}
				loops, found := countedTrips(t, path), 0
				for name, want := range saidTrips(t, r.stdout) {
					l := loops[name]
					if l == nil { // as where the whole function is too short for a copy
						t.Logf("%s is no loop", name)
						continue
					}
					found++
					if l.Histogram == nil {
						t.Errorf("%s: its trips are not counted: %+v", name, l.Loop)
					} else if *l.Histogram != want.Histogram {
						t.Errorf("%s: %+v, not %+v", name, *l.Histogram, want.Histogram)
					}
					if l.Entries != want.Executions+want.lost {
						t.Errorf("%s: entered %d times, not %d and %d", name, l.Entries, want.Executions, want.lost)
					}
				}
				if found < 10 {
					t.Errorf("only %d loops", found)
				}
				for _, row := range [][]string{
					{"; 1 execution ended, 3 trips\n", "loops", "--histogram", "--function", "probe"},
					{"LEAST  MOST  TRIPS", "loops", "--function", "probe"},
					{`"trips":{"ended":1,"least":3,"most":3,`, "loops", "--format", "json", "--function", "probe"},
					{", 3.0 each; 3 trips; ", "annotate", "probe"},
				} {
					if r := run(t, cmd(append(append([]string{build(t, "hotspots")}, row[1:]...), path)...)); !strings.Contains(r.stdout, row[0]) {
						t.Errorf("%v: %+v", row, r)
					}
				}
			})
		}
	}
}

// TestTripsInterrupted: a handler that strikes in what counts sees the program's own registers
// and stack, at whatever instruction. If it goes through the same loops, executions that it
// interrupts may be missing, and no other trips appear.
func TestTripsInterrupted(t *testing.T) {
	lane.Parallel(t)
	gpp := need(t, "g++")
	for _, flags := range lane.Some([][]string{{"-O1"}, {"-O2", "-no-pie"}, {"-O0"}}, 2) {
		program := compile(t, gpp, append(flags, "-Wall", "-Werror", "-pthread"), "trips.cc")
		for _, args := range [][]string{{"steps", "3"}, {"steps-again", "3"}, {"timer", "300000"}, {"timer-again", "300000"}} {
			t.Run(strings.Join(append(slices.Clone(flags), args...), " "), func(t *testing.T) {
				t.Parallel()
				if args[0] == "steps" { // in copies without counters, too
					r, _ := countedAt(t, cmd(append([]string{program}, args...)...), "--trips", "--objects", "main", "--blocks=hot", "--threshold", "1000000000")
					if r.status != 0 || !strings.HasSuffix(r.stderr, " 0 wrong\n") || strings.HasPrefix(r.stderr, "0 struck") {
						t.Fatalf("without counters: %+v", r)
					}
				}
				r, path := countedAt(t, cmd(append([]string{program}, args...)...), "--trips", "--objects", "main", "--cache=false")
				if r.status != 0 || !strings.HasSuffix(r.stderr, " 0 wrong\n") {
					t.Fatalf("%+v", r)
				}
				if args[0] == "steps" && strings.HasPrefix(r.stderr, "0 struck") {
					t.Errorf("no handler struck in the loop: %+v", r)
				}
				loops := countedTrips(t, path)
				for name, want := range saidTrips(t, r.stdout) {
					l := loops[name]
					if l == nil || l.Histogram == nil {
						t.Errorf("%s: %+v", name, l)
						continue
					}
					got := *l.Histogram
					t.Logf("%s: %d of %d executions are missing", name, want.Executions-got.Executions, want.Executions)
					if l.Entries != want.Executions || got.Least != 10 || got.Most != 10 || got.Executions != got.Buckets[table.BucketOf(10)] || got.Executions > want.Executions {
						t.Errorf("%s: %+v, entered %d times, not %+v", name, got, l.Entries, want.Histogram)
					}
					if missing := want.Executions - got.Executions; missing > want.Executions/2 || missing > 0 && !strings.HasSuffix(args[0], "again") {
						t.Errorf("%s: %d of %d executions are missing", name, missing, want.Executions)
					}
				}
			})
		}
	}
}

// TestTripsShared: where all threads share the counters trips are not counted, nor without
// --trips.
func TestTripsShared(t *testing.T) {
	lane.Parallel(t)
	if setting("TEST_BLOCKS") != "" {
		t.Skip("trips are counted everywhere")
	}
	program := compile(t, need(t, "g++"), []string{"-O1", "-pthread"}, "trips.cc")
	for _, row := range []struct {
		way  []string
		says string
	}{{[]string{"--trips", "--lock"}, "share their counters"}, {[]string{"--blocks"}, "run it with hotspots run --trips"}} {
		way := row.way
		r, path := countedAt(t, cmd(program, "timer", "100"), append(way, "--objects", "main")...)
		if r.status != 0 {
			t.Fatalf("%+v", r)
		}
		if r := run(t, cmd(build(t, "hotspots"), "loops", "--histogram", path)); r.status != 1 || !strings.Contains(r.stderr, row.says) {
			t.Errorf("%v: %+v", way, r)
		}
		for name, l := range countedTrips(t, path) {
			if l.Histogram != nil || l.Trips != 0 {
				t.Errorf("%v: %s: %+v", way, name, l)
			}
		}
	}
}

// TestTripsPaused: an execution that counting is paused in is missing, unless it goes on before
// the next trip, and no others; none has other trips than it had (testdata/tripspaused.cc).
func TestTripsPaused(t *testing.T) {
	lane.Parallel(t)
	const trips, rounds = 10, 2000
	program := compile(t, need(t, "g++"), []string{"-O1", "-Wall", "-Werror", "-pthread", "-I../libdynprof"}, "tripspaused.cc")
	for _, way := range [][]string{{"--control"}, {"--blocks=hot", "--threshold", "1"}, {"--control", "--edges", "--translator", "-"}} {
		for _, one := range []struct {
			args  string // testdata/tripspaused.cc
			ended uint64
		}{
			{"11 11 5", 5},
			{"3 6 4 11 11 3", 3},
			{"3 3 4", 4},
			{"5 2 2 9 11 1 11 11 6", 6}, // the second begins where nothing is counted
			{"0 9 3 11 11 2", 2},
			{fmt.Sprint(rounds), 0},
		} {
			t.Run(strings.Join(append(slices.Clone(way), one.args), " "), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "table")
				args := append([]string{build(t, "hotspots"), "run", "-o", path, "--summary", "0", "--trips", "--objects", "main"}, way...)
				r := run(t, cmd(append(append(args, "--", program), strings.Fields(one.args)...)...))
				if r.status != 0 || r.stdout+r.stderr != "" {
					t.Fatalf("%+v", r)
				}
				loops := countedTrips(t, path)
				for _, name := range []string{"around", "calls", "nested 1", "nested 2"} {
					h := loops[name].Histogram
					if h == nil {
						t.Errorf("the trips of %s are not counted", name)
						continue
					}
					if h.Executions != h.Buckets[table.BucketOf(trips)] || h.Executions > 0 && (h.Least != trips || h.Most != trips) {
						t.Errorf("%s: not all executions have %d trips: %+v", name, trips, *h)
					}
					if name == "around" && h.Executions != one.ended {
						t.Errorf("%d executions, not %d, of %d that were entered", h.Executions, one.ended, loops[name].Entries)
					}
				}
			})
		}
	}
}
