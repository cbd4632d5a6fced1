package test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// regionThread is what a thread has done with a region.
type regionThread struct {
	Thread uint32 `json:"thread"`
	Name   string `json:"name"`
	Loads  uint64 `json:"loads"`
	Stores uint64 `json:"stores"`
}

// TestRegionsByThread: what each thread has done, with the name that it had.
func TestRegionsByThread(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-pthread", "-I../libdynprof"}, "regionsthreads.c")
	r, table := countedAt(t, cmd(program), "--regions", "--objects", "main")
	l := regionsOf(t, table)
	text := run(t, cmd(build(t, "hotspots"), "regions", table))
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if r.status != 0 || len(l.Regions) != 1 || len(lines) != 3 || len(l.Regions[0].ByThread) != 3 || len(l.Regions[0].Threads) != 3 {
		t.Fatalf("%+v: %+v", r, l)
	}
	for _, line := range lines {
		var want regionThread
		var number int
		if _, err := fmt.Sscanf(line, "%d worker %d %d %d", &want.Thread, &number, &want.Loads, &want.Stores); err != nil {
			t.Fatal(line, err)
		}
		want.Name = fmt.Sprintf("worker %d", number)
		if got := l.Regions[0].ByThread[3-number]; got != want { // most first
			t.Errorf("%+v, not %+v", got, want)
		}
		shown := fmt.Sprintf("%14d loads  %14d stores  thread %d %s\n", want.Loads, want.Stores, want.Thread, want.Name)
		if !strings.Contains(text.stdout, shown) {
			t.Errorf("no %q in %s", shown, text.stdout)
		}
	}
}

// TestRegionsWhileItRuns: what is said of a program that runs is of one moment.
func TestRegionsWhileItRuns(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-pthread", "-I../libdynprof"}, "regionsthreads.c")
	table := filepath.Join(t.TempDir(), "table")
	c := exec.Command(build(t, "hotspots"), "run", "-o", table, "--summary", "0", "--regions", "--objects", "main", "--", program, "on")
	to, from := converse(t, c)
	if line, err := from.ReadString('\n'); line != "begun\n" {
		t.Fatal(line, err)
	}
	some, last := 0, uint64(0)
	for tries := 0; some < 5 && tries < 200; tries++ {
		r := run(t, cmd(build(t, "hotspots"), "regions", table, "--format", "json"))
		var l regionList
		if r.status != 0 || json.Unmarshal([]byte(r.stdout), &l) != nil { // it is not there yet
			continue
		}
		var byThread uint64
		for i := range l.Regions {
			for _, th := range l.Regions[i].ByThread {
				byThread += th.Loads + th.Stores
			}
		}
		if l.Total.Ended || len(l.Regions) != 1 || l.Regions[0].Accesses != l.Total.Records || byThread != l.Total.Records || l.Total.Records < last {
			t.Errorf("%+v", l)
		}
		if last = l.Total.Records; last > 0 {
			some++
		}
	}
	if some < 5 {
		t.Error("nothing was seen while it ran")
	}
	to.Close()
	for {
		if _, err := from.ReadString('\n'); err != nil {
			break
		}
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
