package table_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// tripsSpec is blocksSpec, with the trips of its loop.
func tripsSpec() *build.Spec {
	spec := blocksSpec()
	each := spec.Blocks.Loops
	spec.Flags |= layout.FlagTrips
	spec.Blocks.Loops = func(yield func(*layout.Loop) bool) {
		for l := range each {
			one := *l
			one.Trips = 6
			if !yield(&one) {
				return
			}
		}
	}
	spec.Blocks.Counters.Count += layout.TrWords
	return spec
}

// tripWords are those of a row in which executions with so many trips have ended.
func tripWords(trips ...uint64) []uint64 {
	words := make([]uint64, layout.TrWords)
	words[layout.TrStack/8], words[layout.TrRounds/8] = 0x7ffc00001000, 5 // one goes on
	for _, n := range trips {
		words[layout.TrMost/8] = max(words[layout.TrMost/8], n)
		words[layout.TrLeast/8] = max(words[layout.TrLeast/8], ^n)
		words[layout.TrBuckets/8+table.BucketOf(n)]++
	}
	return words
}

// TestTrips: the least and the most are those of all rows, and the executions of a bucket
// their sum.
func TestTrips(t *testing.T) {
	l := tabletest.Create(t, "trips", tripsSpec())
	for row, trips := range [][]uint64{{3, 7, 8, 15, 1 << 40}, {}, {2, 3, math.MaxUint32}} {
		l.Row(layout.Row{Index: uint32(row), State: layout.RowLive, Kind: layout.RowThread, Pid: 1, Tid: 1 + uint32(row)})
		l.Set(uint32(row), append([]uint64{10, 20, 30, 40, 12, 7}, tripWords(trips...)...)...)
	}
	tab, err := table.Open(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	f, err := tab.Flow(tabletest.Snapshot(t, tab))
	if err != nil {
		t.Fatal(err)
	}
	want := table.Histogram{Executions: 8, Least: 2, Most: 1 << 40}
	want.Buckets[1], want.Buckets[2], want.Buckets[3], want.Buckets[layout.TrCount-1] = 3, 1, 2, 2
	if h := f.Loops[0].Histogram; h == nil || *h != want || !tab.HasTrips() {
		t.Errorf("%+v, not %+v", h, want)
	}
	seed, err := os.ReadFile(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	if seed[layout.HdrVersion] != layout.VersionTrips {
		t.Errorf("version %d", seed[layout.HdrVersion])
	}
	for name, trips := range map[string]byte{"words of functions": 3, "words behind all": 7} {
		b := bytes.Clone(seed)
		b[int(l.Loops.Offset)+layout.LpTrips] = trips
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
		if err == nil {
			_, err = tab.Flow(tabletest.Snapshot(t, tab))
		}
		if !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTripsNone: loops that did not run, and tables without.
func TestTripsNone(t *testing.T) {
	for name, spec := range map[string]*build.Spec{"not run": tripsSpec(), "without": blocksSpec()} {
		tab, err := table.Open(tabletest.Create(t, name, spec).Path)
		if err != nil {
			t.Fatal(err)
		}
		defer tab.Close()
		f, err := tab.Flow(tabletest.Snapshot(t, tab))
		if err != nil {
			t.Fatal(err)
		}
		if h := f.Loops[0].Histogram; (h != nil) != tab.HasTrips() || h != nil && *h != (table.Histogram{}) {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// TestBuckets: each number of trips is in one bucket, within its bounds.
func TestBuckets(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 4, 7, 8, 1<<27 - 1, 1 << 27, 1<<27 + 1, 1 << 40, math.MaxUint64} {
		if least, most := table.Bucket(table.BucketOf(n)); n < least || most != 0 && n > most || most == 0 && least != 1<<(layout.TrCount-1) {
			t.Errorf("%d trips: %d to %d", n, least, most)
		}
	}
}
