package agent

import (
	"encoding/binary"
	"time"

	"github.com/dynprof/dynprof/internal/overhead"
	"github.com/dynprof/dynprof/internal/table/control"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// How often the program is looked at: soon after its start, then less and less often. While it
// takes no CPU time that becomes rare. The agent itself takes no more than a fiftieth of a CPU.
const (
	soonest = 5 * time.Millisecond
	usual   = 40 * time.Millisecond
	resting = 50 // times the time that a look takes
)

// observer has the blocks of functions counted by turns, so that it takes no more than a share
// of the program's CPU time (package overhead). A nil one does nothing.
type observer struct {
	s    *control.Service
	t    *file.File
	turn func([]Turn) int

	choose    *overhead.Chooser
	functions []observed
	ever      []int // those whose blocks have been counted, by their numbers here
	calls     []uint64
	counts    []uint64 // of blocks, of those
	counters  counters
	processes processes
	every     time.Duration
	failed    bool
}

// observed is a function whose blocks can be counted or not.
type observed struct {
	number  uint32 // in the table
	counter uint32 // of its calls
	blocks  []uint32
	was, on bool // its blocks have ever been counted, and are,
	shall   bool // and shall be until the next look
}

var le = binary.LittleEndian

// observe begins; nil if the program does not want it, or cannot be observed.
func (a *Agent) observe(s *control.Service) *observer {
	fi, err := s.File().Stat()
	if err != nil {
		return nil
	}
	t := file.New(s.File(), fi.Size())
	if t.ReadHead() != nil || t.Overhead == 0 {
		return nil
	}
	o := &observer{s: s, t: t, every: soonest, turn: func(turns []Turn) int { return a.Turn(s.File(), turns) }}
	asked, err := o.readFunctions()
	if err != nil {
		return nil
	}
	cost := overhead.CountCost
	if t.Flags&layout.FlagShared != 0 {
		cost = overhead.LockCountCost
	}
	o.calls, o.counts = make([]uint64, len(asked)), make([]uint64, len(asked))
	o.choose = overhead.New(overhead.Bound(t.Overhead), cost, asked)
	o.processes = newProcesses(t)
	o.processes.spent()
	return o
}

// readFunctions lists the functions whose copies have a switch.
func (o *observer) readFunctions() (asked []overhead.Function, err error) {
	var function []uint32 // of each block
	counters, switched := map[uint32][]uint32{}, map[uint32]bool{}
	note := func(f, counter uint32) {
		if counter != layout.NoCounter {
			counters[f] = append(counters[f], counter)
		}
	}
	if err := o.t.EachEntry(o.t.Geometry.Blocks, func(b []byte) error {
		k := layout.DecodeBlock(b)
		function = append(function, k.Function)
		note(k.Function, k.Counter)
		return nil
	}); err != nil {
		return nil, err
	}
	if err := o.t.EachEntry(o.t.Geometry.Ways, func(b []byte) error {
		w := layout.DecodeWay(b)
		at := w.From
		if at == layout.NoBlock {
			at = w.To
		}
		if at >= uint32(len(function)) {
			return layout.Corrupt("a way of block %d of %d", at, len(function))
		}
		note(function[at], w.Counter)
		if w.Flags&layout.WayEntry != 0 && w.Flags&layout.WayCalls == 0 {
			switched[function[at]] = true
		}
		return nil
	}); err != nil {
		return nil, err
	}
	number := uint32(0)
	err = o.t.EachEntry(o.t.Geometry.Functions, func(b []byte) error {
		if f := layout.DecodeFunction(b); switched[number] && f.Counter != layout.NoCounter {
			asked = append(asked, overhead.Function{Threshold: o.t.HotAt(&f), Counters: len(counters[number])})
			o.functions = append(o.functions, observed{number: number, counter: f.Counter, blocks: counters[number]})
		}
		number++
		return nil
	})
	return asked, err
}

// patience is how long may be waited for something else.
func (o *observer) patience(most time.Duration) time.Duration {
	if o == nil || o.failed {
		return most
	}
	return min(most, o.every)
}

// look chooses anew.
func (o *observer) look() {
	if o == nil || o.failed {
		return
	}
	begin := time.Now()
	spent := o.processes.spent()
	on, err := o.account(spent)
	if err != nil { // it was cut short: nobody knows what is counted
		o.failed, on = true, nil
	}
	o.apply(on)
	next := usual
	if spent == 0 {
		next = look
	}
	o.every = max(min(2*o.every, next), min(resting*time.Since(begin), look))
}

// account reads the counts, tells the chooser, and notes the estimate in the table.
func (o *observer) account(spent time.Duration) (on []int, err error) {
	if err := o.counters.read(o.t); err != nil {
		return nil, err
	}
	for i := range o.functions {
		o.calls[i] = o.counters.of(o.functions[i].counter)
	}
	for _, i := range o.ever {
		o.counts[i] = 0
		for _, k := range o.functions[i].blocks {
			o.counts[i] += o.counters.of(k)
		}
	}
	on = o.choose.Look(spent, o.calls, o.counts)
	o.s.Store(layout.HdrObservingCost, uint64(o.choose.Cost))
	o.s.Store(layout.HdrObservingTime, uint64(o.choose.Time))
	return on, nil
}

// apply turns switches. Those that are on are turned each time: they are off where counting
// was paused in between.
func (o *observer) apply(on []int) {
	for _, i := range on {
		f := &o.functions[i]
		if f.shall = true; !f.was {
			f.was = true
			o.ever = append(o.ever, i)
		}
	}
	var turns []Turn
	for _, i := range o.ever {
		f := &o.functions[i]
		switch {
		case f.shall:
			turns = append(turns, Turn{f.number, 1})
		case f.on:
			turns = append(turns, Turn{f.number, 0})
		}
		f.on, f.shall = f.shall, false
	}
	if len(turns) > 0 {
		o.turn(turns)
	}
}

// end notes what was counted last. The CPU time of that is not known any more.
func (o *observer) end() {
	if o != nil && !o.failed {
		o.account(0)
	}
}

// counters are the sums of all rows' words.
type counters struct {
	sums []uint64
	buf  []byte
}

// read adds up all rows.
func (c *counters) read(t *file.File) error {
	var head [layout.HdrRowsUsed + 4]byte
	if err := t.ReadAt(head[:], 0); err != nil {
		return err
	}
	if err := t.CheckWhole(head[:], t.Nonce); err != nil {
		return err
	}
	used := min(le.Uint32(head[layout.HdrRowsUsed:]), t.Geometry.Rows.Capacity)
	if c.buf == nil {
		c.buf, c.sums = make([]byte, layout.Chunk), make([]uint64, t.Geometry.Counters)
	}
	clear(c.sums)
	perRow := uint64(t.Geometry.Rows.EntrySize) / layout.PageSize
	pages := layout.Section{Offset: t.Geometry.Rows.Offset, EntrySize: layout.PageSize}
	return t.EachDataIn(c.buf, pages, uint64(used)*perRow, func(page uint64, b []byte) error {
		for ; len(b) > 0; b = b[layout.PageSize:] {
			c.addPage(page%perRow, b[:layout.PageSize])
			page++
		}
		return nil
	})
}

// addPage adds the n-th page of a row.
func (c *counters) addPage(n uint64, b []byte) {
	const words = layout.PageSize / 8
	first, skip := n*words-layout.RowCounters/8, uint64(0)
	if n == 0 {
		first, skip = 0, layout.RowCounters
	}
	for i := skip; i < layout.PageSize && first < uint64(len(c.sums)); i += 8 {
		c.sums[first] += le.Uint64(b[i:]) &^ layout.CounterFired
		first++
	}
}

// of is the sum of a counter.
func (c *counters) of(counter uint32) uint64 {
	if counter >= uint32(len(c.sums)) {
		return 0
	}
	return c.sums[counter]
}
