package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// event is one entry of hotspots events (docs/json.md).
type event struct {
	Time    time.Time `json:"time"`
	Object  string    `json:"object"`
	Address string    `json:"address"`
	Name    string    `json:"name"`
	Calls   uint64    `json:"calls"`
	Pid     int       `json:"pid"`
	Tid     int       `json:"tid"`
	Outcome string    `json:"outcome"`
}

// events is what hotspots events tells.
type events struct {
	Threshold, Lost, Dropped, Failures uint64
	Events                             []event
}

func eventList(t *testing.T, table string) events {
	t.Helper()
	var list events
	out := run(t, cmd(build(t, "hotspots"), "events", "--format", "json", "--no-demangle", table))
	if err := json.Unmarshal([]byte(out.stdout), &list); err != nil {
		t.Fatalf("events: %v\n%s", err, out.stderr)
	}
	return list
}

// countedWithEvents runs c with a threshold of n calls.
func countedWithEvents(t *testing.T, c command, n uint64, more ...string) (result, *report, []event) {
	t.Helper()
	table := filepath.Join(t.TempDir(), "table")
	hotspots := build(t, "hotspots")
	c.args = append([]string{hotspots, "run", "-o", table, "--summary", "0", "--threshold", fmt.Sprint(n)}, append(append(more, "--"), c.args...)...)
	got := run(t, c)
	list := eventList(t, table)
	if list.Threshold != n || list.Lost != 0 {
		t.Errorf("threshold %d, not %d; %d events lost", list.Threshold, n, list.Lost)
	}
	if !slices.IsSortedFunc(list.Events, func(a, b event) int { return a.Time.Compare(b.Time) }) {
		t.Error("events are not in order of time")
	}
	return got, readReport(t, table), list.Events
}

// eventsOf returns each function's event; none has two. A function is hot if it
// has one.
func eventsOf(t *testing.T, r *report, list []event) map[string]event {
	t.Helper()
	key := func(object, address string) string { return object + " " + address }
	of := map[string]event{}
	for _, e := range list {
		k := key(e.Object, e.Address)
		if _, twice := of[k]; twice {
			t.Errorf("%s has two events", e.Name)
		}
		of[k] = e
	}
	byName := map[string]event{}
	for _, f := range r.Functions {
		e, ok := of[key(f.Object, f.Address)]
		if f.Hot != ok {
			t.Errorf("%s: hot %t, has an event %t", f.Name, f.Hot, ok)
		}
		if ok {
			byName[f.Name] = e
			delete(of, key(f.Object, f.Address))
		}
	}
	for k := range of {
		t.Errorf("an event of %s, which is not in the report", k)
	}
	return byName
}

// TestThresholdOneThread: every function that is called often enough has one
// event, at exactly that call.
func TestThresholdOneThread(t *testing.T) {
	lane.Parallel(t)
	for _, sources := range [][]string{{"vm.c"}, {"odd.c", "odd.S"}} {
		p := compile(t, need(t, "gcc"), []string{"-O2"}, sources...)
		without := run(t, cmd(p))
		for _, n := range []uint64{1, 2, 19, 700, 20000} {
			t.Run(fmt.Sprint(sources[0], " ", n), func(t *testing.T) {
				t.Parallel()
				with, r, list := countedWithEvents(t, cmd(p), n)
				same(t, without, with)
				events := eventsOf(t, r, list)
				for _, f := range r.Functions {
					e, ok := events[f.Name]
					if ok != (f.Calls >= n) {
						t.Errorf("%s: %d calls, has an event: %t", f.Name, f.Calls, ok)
					}
					if ok && (e.Calls != n || e.Pid != e.Tid || e.Pid == 0) {
						t.Errorf("%s: event at %d calls, pid %d, tid %d", f.Name, e.Calls, e.Pid, e.Tid)
					}
				}
			})
		}
	}
}

// TestThresholdByName: functions that a glob names have thresholds of their own,
// the others the one for all, or none.
func TestThresholdByName(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "vm.c")
	without := run(t, cmd(p))
	_, plain := counted(t, cmd(p))
	for _, run := range []struct {
		all  uint64
		more []string
	}{{0, nil}, {700, nil}, {0, []string{"--translator", "-"}}, {700, []string{"--translator", "-"}}} {
		all := run.all
		with, r, list := countedWithEvents(t, cmd(p), all, append(run.more, "--threshold", "*a*=50", "--threshold", "table_?ut*=0", "--threshold", "mai?=1")...)
		same(t, without, with)
		events := eventsOf(t, r, list)
		named := 0
		for i, f := range r.Functions {
			n := all
			switch {
			case f.Name == "main":
				n = 1
			case strings.HasPrefix(f.Name, "table_put"):
				n = 0
			case strings.Contains(f.Name, "a"):
				n = 50
				named++
			}
			e, ok := events[f.Name]
			if ok != (n > 0 && f.Calls >= n) || ok && e.Calls != n {
				t.Errorf("%s: threshold %d, %d calls, has an event: %t, at %d", f.Name, n, f.Calls, ok, e.Calls)
			}
			if f.Calls != plain.Functions[i].Calls {
				t.Errorf("%s: %d calls, not %d", f.Name, f.Calls, plain.Functions[i].Calls)
			}
		}
		if named < 3 {
			t.Errorf("%d functions with a threshold by name: this is no test", named)
		}
	}
}

// TestThresholdThreads: a row crosses the threshold by itself, so that the
// total is then between one and all threads' worth.
func TestThresholdThreads(t *testing.T) {
	lane.Parallel(t)
	twoCores(t)
	const n, threads = 60, 4
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "threshold.c")
	for _, row := range []struct {
		what        string
		least, most uint64
	}{
		{"lockstep", threads*(n-1) + 1, threads * n}, // all others have n-1 or n
		{"in_turn", threads*(n-1) + 1, threads*(n-1) + 1},
		{"freely", n, 3 * n * threads}, // they do not wait for the one that takes the event
	} {
		t.Run(row.what, func(t *testing.T) {
			with, r, list := countedWithEvents(t, cmd(p, row.what, fmt.Sprint(n)), n)
			selfCounting(t, comparison{exempt: untallied()}, with, r)
			events := eventsOf(t, r, list)
			for i := range 12 {
				name := fmt.Sprint("step_", i)
				if e, ok := events[name]; !ok || e.Calls < row.least || e.Calls > row.most {
					t.Errorf("%s: has an event %t, at %d calls, not %d to %d", name, ok, e.Calls, row.least, row.most)
				}
			}
		})
	}
}

// TestThresholdForks: one event for a whole tree of processes.
func TestThresholdForks(t *testing.T) {
	lane.Parallel(t)
	twoCores(t)
	const n = 15000
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "forks.c")
	with, r, list := countedWithEvents(t, cmd(p), n)
	selfCounting(t, comparison{exempt: untallied()}, with, r)
	events := eventsOf(t, r, list)
	if e := events["step"]; len(events) != 1 || e.Calls < n {
		t.Errorf("%d functions with events; step at %d calls", len(events), e.Calls)
	}
}
