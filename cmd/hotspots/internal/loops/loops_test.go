package loops

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// looped is a program with a function of three loops, each a block: the trips of the first are
// counted, the flags are live in the second, and the third is entered in ways that are not told.
func looped(t *testing.T, flags uint32) *table.Table {
	t.Helper()
	const first, back, trips = 4, 4, 7 // counters: of blocks' all, of ways back, of trips
	var blocks []*layout.Block
	var loops []*layout.Loop
	ways := []*layout.Way{{From: layout.NoBlock, To: 0, Counter: layout.NoCounter, Flags: layout.WayCalls}}
	for i := range uint32(3) {
		blocks = append(blocks, &layout.Block{Address: 0x1160 + 4*uint64(i), Function: 1, Counter: layout.NoCounter, After: layout.NoBlock, Instructions: 2, Size: 4, Loop: i})
		loops = append(loops, &layout.Loop{Header: i, Parent: layout.NoLoop})
		next := i + 1
		if i == 2 {
			next = layout.NoBlock
		}
		ways = append(ways, &layout.Way{From: i, To: next, Counter: layout.NoCounter}, &layout.Way{From: i, To: i, Counter: back + i, Flags: layout.WayBack})
	}
	blocks[0].Flags, loops[1].Flags, loops[2].Flags = layout.BlockEntry, layout.LoopFlagsLive, layout.LoopUntold
	spec := tabletest.Spec()
	counters := layout.BlockCounters{First: first, Count: trips - first}
	if spec.Flags |= flags; flags&layout.FlagTrips != 0 {
		loops[0].Trips, counters.Count = trips, counters.Count+layout.TrWords
	}
	spec.Blocks = &build.Blocks{Each: slices.Values(blocks), Ways: slices.Values(ways), Loops: slices.Values(loops), Counters: counters}
	l := tabletest.Create(t, "loops", spec)
	words := make([]uint64, trips+layout.TrWords)
	words[1], words[2], words[3] = 20, 20, 20 // calls
	words[back], words[back+1], words[back+2] = 300, 5, 5
	own := words[trips:]
	own[layout.TrMost/8], own[layout.TrLeast/8] = 1<<30, ^uint64(2)
	own[layout.TrBuckets/8+1], own[layout.TrBuckets/8+3], own[layout.TrBuckets/8+layout.TrCount-1] = 12, 3, 1
	l.Row(layout.Row{State: layout.RowLive, Kind: layout.RowThread, Pid: 1, Tid: 1})
	l.Set(0, words...)
	tab, err := table.Open(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tab.Close() })
	return tab
}

// TestTrips: what is shown of trips, and why there are none.
func TestTrips(t *testing.T) {
	for name, row := range map[string]struct {
		flags uint32
		says  []string // of the text, of the histogram
		json  []string
		none  string // the error of a histogram
	}{
		"counted": {layout.FlagTrips, []string{
			"DEPTH  ENDED  LEAST           MOST", "1     16      2  1,073,741,824  ·█·▂", "flags: trips are not counted, as status flags are live", "untold: trips are not counted, as it cannot be told",
			"; 16 executions ended, 2 to 1,073,741,824 trips; 4 not seen to end\n", "                    2 to 3          12   75.00%  ########################################\n",
			"                    4 to 7           0    0.00%\n", "134,217,728 and more           1    6.25%  ####\n", "trips not counted: flags\n",
		}, []string{
			`"trips":{"ended":16,"least":2,"most":1073741824,"buckets":[{"from":2,"to":3,"executions":12},{"from":8,"to":15,"executions":3},{"from":134217728,"to":null,"executions":1}]},"no_trips":""}`,
			`"trips":null,"no_trips":"flags"}`, `"trips":null,"no_trips":"untold"}`,
		}, ""},
		"not asked": {0, []string{"EACH  DEPTH  OBJECT"}, []string{`"no_trips":"not-asked"`}, "hotspots run --trips"},
		"shared":    {layout.FlagShared, nil, []string{`"no_trips":"shared"`}, "share their counters"},
	} {
		tab := looped(t, row.flags)
		list, err := Of(tab, "", false)
		if err != nil {
			t.Fatal(err)
		}
		var text, js, csv bytes.Buffer
		if err := list.Text(&text, report.Style{}); err != nil {
			t.Fatal(err)
		}
		if err := CheckTrips(tab); err != nil {
			if row.none == "" || !strings.Contains(err.Error(), row.none) {
				t.Errorf("%s: %v", name, err)
			}
		} else if err := list.Histogram(&text); err != nil || row.none != "" {
			t.Errorf("%s: %v", name, err)
		}
		if err := list.JSON(&js); err != nil || !json.Valid(js.Bytes()) {
			t.Errorf("%s: %v: %s", name, err, js.String())
		}
		if err := list.CSV(&csv); err != nil || !strings.HasPrefix(csv.String(), "object,function,address,header,depth,iterations,entries,instructions,ended,least,most\n") {
			t.Errorf("%s: %v: %s", name, err, csv.String())
		}
		for _, want := range row.says {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: it does not say %q:\n%s", name, want, text.String())
			}
		}
		for _, want := range row.json {
			if !strings.Contains(js.String(), want) {
				t.Errorf("%s: it does not say %s:\n%s", name, want, js.String())
			}
		}
	}
}
