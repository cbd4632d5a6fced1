package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/overhead"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// withBlocks has each counted function of spec, whose numbers begin with function, those of
// blocks with block, be two blocks. Their counters, a block's and a way's, begin with counter. All
// functions but the first have a switch.
func withBlocks(spec *build.Spec, function, block, counter uint32) *build.Spec {
	b := &build.Blocks{Loops: func(func(*layout.Loop) bool) {}}
	var blocks []*layout.Block
	var ways []*layout.Way
	b.Counters.First = counter
	for i := range spec.Functions {
		if spec.Functions[i].Counter == layout.NoCounter {
			continue
		}
		entry := &layout.Way{From: layout.NoBlock, To: block, Counter: layout.NoCounter, Flags: layout.WayEntry}
		if i == 0 {
			entry.Flags |= layout.WayCalls
		}
		ways = append(ways, &layout.Way{From: block, To: block + 1, Counter: counter}, entry)
		for k := range uint32(2) {
			blocks = append(blocks, &layout.Block{Address: spec.Functions[i].Address + uint64(k), Size: 1, Instructions: 1,
				Function: function + uint32(i), Counter: layout.NoCounter, After: layout.NoBlock, Loop: layout.NoLoop})
		}
		blocks[len(blocks)-1].Counter = counter + 1
		block, counter = block+2, counter+2
	}
	b.Each = pointed(blocks)
	b.Ways = pointed(ways)
	b.Counters.Count = counter - b.Counters.First
	spec.Blocks = b
	return spec
}

func pointed[T any](list []*T) func(func(*T) bool) {
	return func(yield func(*T) bool) {
		for _, e := range list {
			if !yield(e) {
				return
			}
		}
	}
}

// counted are the functions of tabletest.Spec that are counted: 4, of which 3 have a switch.
const counted = 4

// observedTable is a table with blocks and room for more, and an observer of it.
func observedTable(t *testing.T) (*tabletest.Live, *file.File) {
	t.Helper()
	spec := withBlocks(tabletest.Spec(), 0, 0, counted)
	spec.NoSpare, spec.Overhead, spec.Flags = false, 50, spec.Flags|layout.FlagSwitched
	live := tabletest.CreateAt(t, filepath.Join(t.TempDir(), "table"), spec)
	f, err := os.Open(live.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	tab := file.New(f, fi.Size())
	if err := tab.ReadHead(); err != nil {
		t.Fatal(err)
	}
	return live, tab
}

// load adds an object with two functions, of which the second has a switch, and returns the
// first of its counters, and of its functions.
func load(t *testing.T, live *tabletest.Live) (counter, function uint32) {
	t.Helper()
	a, err := build.OpenAppend(tabletest.Writable(t, live.Path))
	if err != nil {
		t.Fatal(err)
	}
	spec := tabletest.Late(uint16(a.Objects.Count), a.Counters)
	for i := range spec.Functions {
		spec.Functions[i].Threshold = 1000
	}
	if err := a.Add(withBlocks(spec, a.Functions.Count, a.Blocks.Count, a.Counters+2)); err != nil {
		t.Fatal(err)
	}
	return a.Counters, a.Functions.Count
}

func shown(list []observed) (text string) {
	for _, f := range list {
		text += fmt.Sprintf("%d:%d%v ", f.number, f.counter, f.blocks)
	}
	return text
}

// TestRoster: functions with a switch are found, those of objects that come later, too, but
// not while they are being added.
func TestRoster(t *testing.T) {
	live, tab := observedTable(t)
	var r roster
	asked, err := r.more(tab)
	if want := "1:1[7 6] 2:2[9 8] 5:3[11 10] "; err != nil || shown(r.functions) != want {
		t.Errorf("%s, not %s: %v", shown(r.functions), want, err)
	}
	if want := slices.Repeat([]overhead.Function{{Threshold: 1000, Counters: 2}}, 3); !slices.Equal(asked, want) {
		t.Errorf("%+v, not %+v", asked, want)
	}
	if asked, err := r.more(tab); len(asked) != 0 || err != nil {
		t.Errorf("once more: %+v, %v", asked, err)
	}
	for range 2 {
		counter, function := load(t, live)
		generation, err := tab.U32(layout.HdrGeneration)
		if err != nil {
			t.Fatal(err)
		}
		live.Word(layout.HdrGeneration, generation+1)
		before := len(r.functions)
		if asked, err := r.more(tab); len(asked) != 0 || err != nil || len(r.functions) != before {
			t.Errorf("while objects are being added: %+v, %v", asked, err)
		}
		live.Word(layout.HdrGeneration, generation+2)
		asked, err := r.more(tab)
		if want := fmt.Sprintf("%d:%d[%d %d] ", function+1, counter+1, counter+5, counter+4); err != nil || len(asked) != 1 || shown(r.functions[before:]) != want {
			t.Errorf("%s, not %s: %+v, %v", shown(r.functions[before:]), want, asked, err)
		}
	}
}

// TestRosterWrong: a table that says what cannot be is refused.
func TestRosterWrong(t *testing.T) {
	live, tab := observedTable(t)
	live.Word(int64(tab.Ways.Offset)+layout.WyFrom, 1000)
	var r roster
	if asked, err := r.more(tab); err == nil {
		t.Errorf("%+v", asked)
	}
}

// TestCounters: sums of all rows, without the marks that events leave in them.
func TestCounters(t *testing.T) {
	live, tab := observedTable(t)
	live.Row(layout.Row{Index: 0})
	live.Row(layout.Row{Index: 2})
	live.Set(0, 1, 2|layout.CounterFired, 3)
	live.Set(1, 1<<40) // nobody has it
	live.Set(2, 10, 20)
	var c counters
	check := func(want ...uint64) {
		t.Helper()
		if err := c.read(tab); err != nil {
			t.Fatal(err)
		}
		for i, n := range want {
			if got := c.of(uint32(i)); got != n {
				t.Errorf("counter %d: %d, not %d", i, got, n)
			}
		}
	}
	check(1<<40+11, 22, 3)
	if n := c.of(1 << 30); n != 0 {
		t.Errorf("%d of a counter that is not there", n)
	}
	live.Set(1, 0)
	check(11, 22, 3)
	late, _ := load(t, live)
	if err := tab.ReadHead(); err != nil {
		t.Fatal(err)
	}
	counts := make([]uint64, late+1)
	counts[late] = 5
	live.Set(0, counts...)
	check(10, 20, 0)
	if n := c.of(late); n != 5 {
		t.Errorf("%d of a counter that came later, not 5", n)
	}
	var other counters
	tab.Nonce[0]++
	if err := other.read(tab); err == nil {
		t.Error("another table is read")
	}
}

// watched is an observer of a program that is played.
type watched struct {
	*observer
	live   *tabletest.Live
	spends time.Duration // in each interval
	turns  []Turn        // at the last look
	stored map[int]uint64
	counts [32]uint64
}

func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{spends: 20 * time.Millisecond, stored: map[int]uint64{}}
	live, tab := observedTable(t)
	w.live = live
	w.observer = newObserver(tab, func(at int, v uint64) { w.stored[at] = v },
		func(turns []Turn) int { w.turns = slices.Clone(turns); return 0 },
		func() time.Duration { return w.spends })
	w.since = func(time.Time) time.Duration { return time.Microsecond } // however busy the machine is
	live.Row(layout.Row{})
	return w
}

func (w *watched) turned(t *testing.T, what string, want ...Turn) {
	t.Helper()
	w.live.Set(0, w.counts[:]...)
	w.turns = nil
	w.look()
	if !slices.Equal(w.turns, want) {
		t.Errorf("%s: %v, not %v", what, w.turns, want)
	}
}

// TestObserver: functions that have become hot are observed, are turned on at each look, and
// off where they have taken more than there is; those of objects that come later, too.
func TestObserver(t *testing.T) {
	w := watch(t)
	w.turned(t, "nothing is hot")
	w.counts[0], w.counts[1] = 5000, 1000
	w.turned(t, "one without a switch, and one with", Turn{1, 1})
	w.turned(t, "again", Turn{1, 1})
	w.counts[1], w.counts[6], w.counts[7] = 2000, 1000, 1000
	w.turned(t, "its blocks have run", Turn{1, 1})
	if got, want := w.stored[layout.HdrObservingCost], uint64(2600); got != want {
		t.Errorf("it cost %d ns, not %d", got, want)
	}
	if got, want := w.stored[layout.HdrObservingTime], uint64(80*time.Millisecond); got != want {
		t.Errorf("of %d ns, not %d", got, want)
	}
	counter, function := load(t, w.live)
	w.counts[counter], w.counts[counter+1] = 1, 1500
	w.turned(t, "a library has come", Turn{1, 1}, Turn{function + 1, 1})
	w.counts[counter+1], w.counts[counter+4], w.counts[counter+5] = 2500, 9_000_000, 1_000_000
	w.turned(t, "its blocks have taken more than there is", Turn{1, 0}, Turn{function + 1, 0})
	w.turned(t, "and still do")
	w.spends = 10 * time.Second
	w.turned(t, "and are paid for", Turn{1, 1}, Turn{function + 1, 1})
	w.end()
	if got, want := w.stored[layout.HdrObservingCost], uint64(13_002_600); got != want {
		t.Errorf("it cost %d ns, not %d", got, want)
	}
}

// TestObserverEnds: of a table that is cut short nothing is known, and nothing is observed any
// more.
func TestObserverEnds(t *testing.T) {
	w := watch(t)
	w.counts[1] = 1000
	w.turned(t, "hot", Turn{1, 1})
	if p := w.patience(look); p >= look {
		t.Errorf("it waits %v", p)
	}
	if err := os.Truncate(w.live.Path, int64(w.live.Rows.Offset)); err != nil {
		t.Fatal(err)
	}
	w.turns = nil
	w.look()
	if want := []Turn{{1, 0}}; !slices.Equal(w.turns, want) || !w.failed || w.patience(look) != look {
		t.Errorf("cut short: %v, %t, patience %v", w.turns, w.failed, w.patience(look))
	}
	w.turned(t, "behind its end")
	var none *observer
	none.look()
	none.end()
	if p := none.patience(look); p != look {
		t.Errorf("nobody observes, and waits %v", p)
	}
}

func TestInterval(t *testing.T) {
	for _, one := range []struct{ last, took, spent, want time.Duration }{
		{soonest, 0, 1, 2 * soonest},
		{usual, 0, 1, usual},
		{usual, time.Millisecond, 1, resting * time.Millisecond},
		{usual, time.Minute, 1, look},
		{usual, 0, 0, 2 * usual},
		{look, 0, 0, look},
		{look, 0, 1, usual},
	} {
		if got := interval(one.last, one.took, one.spent); got != one.want {
			t.Errorf("after %v, of which looking took %v, and the program %v: %v, not %v", one.last, one.took, one.spent, got, one.want)
		}
	}
}
