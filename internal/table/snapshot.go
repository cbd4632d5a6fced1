package table

import (
	"iter"
	"sort"
	"time"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Snapshot is the counts at one moment. Each count lies between what it was
// when the reading began and when it ended. A later snapshot of the same
// table has no smaller count: counters only go up, and a word of eight
// aligned bytes is read whole.
type Snapshot struct {
	Time             time.Time
	Calls            []uint64     // one for each of Table.Functions
	Rows             []layout.Row // those that were ever owned
	Generation       uint32       // not Table.Generation: there are more functions now
	ThreadsDiscarded uint32       // threads that had no room and are not counted
	ThreadsLoose     uint32       // threads whose counts lie in their process's memory, until they end
	PatchesRefused   uint32       // functions that could not be patched
	ObjectsMissed    uint32       // how often an object was loaded later and could not be planned
	Missed           []Missed     // which
	Paused           bool         // nothing counts until somebody goes on with it
	Stopped          bool         // the program took the GS segment, or loaded what may: nothing has counted since
	Dispatched       uint32       // processes that turned Syscall User Dispatch or another filter of addresses on, or replaced text of libc or memory of ours, and have not counted since
	Executed         uint32       // programs that processes have executed and that are not counted
	EventsLost       uint64
	EventsDropped    uint64 // that a translator was not told of
	// TranslatorFailures is how often a translator crashed, was gone, gave what
	// was refused, or did not start. Like counts it only goes up.
	TranslatorFailures uint64
	Folded             []layout.Folded // processes whose counts are in the only row, if they were folded
	Reset              time.Time       // when the counts were reset, if they are those since then

	unread  uint64 // calls of functions that are not in Calls (OpenMost)
	hot     []bool
	formers []former
	cut     map[uint32]uint64 // by row: its calls before the reset
}

// Hot reports whether function i has crossed its threshold.
func (s *Snapshot) Hot(i int) bool { return s.hot != nil && s.hot[i] }

// Total is the sum of all calls.
func (s *Snapshot) Total() uint64 {
	n := s.unread
	for _, c := range s.Calls {
		n += c
	}
	return n
}

// Threads is the number of rows that a thread owns; 1 where all share one.
func (s *Snapshot) Threads() int {
	n := 0
	for i := range s.Folded {
		n += int(s.Folded[i].Threads)
	}
	for i := range s.Rows {
		if s.Rows[i].Held() {
			n++
		}
	}
	return n
}

// Snapshot reads the counters. It needs no help from the program, which may
// run, or be dead.
func (t *Table) Snapshot() (*Snapshot, error) {
	head := make([]byte, layout.HdrExecuted+4)
	if err := t.ReadAt(head, 0); err != nil {
		return nil, err
	}
	s := &Snapshot{
		Time:             time.Now(),
		Calls:            make([]uint64, len(t.Functions)),
		Generation:       le.Uint32(head[layout.HdrGeneration:]),
		ThreadsDiscarded: le.Uint32(head[layout.HdrThreadsDiscarded:]),
		ThreadsLoose:     le.Uint32(head[layout.HdrLoose:]),
		PatchesRefused:   le.Uint32(head[layout.HdrPatchesRefused:]),
		ObjectsMissed:    le.Uint32(head[layout.HdrObjectsMissed:]),
		Paused:           le.Uint32(head[layout.HdrPaused:]) != 0,
		Stopped:          le.Uint32(head[layout.HdrStopped:]) != 0,
		Dispatched:       le.Uint32(head[layout.HdrDispatched:]),
		Executed:         le.Uint32(head[layout.HdrExecuted:]),
		EventsLost:       le.Uint64(head[layout.HdrEventsLost:]),
		EventsDropped:    le.Uint64(head[layout.HdrDropped:]),

		TranslatorFailures: le.Uint64(head[layout.HdrTranslatorFailures:]),
	}
	if err := t.readMissed(s, le.Uint32(head[layout.HdrMissedHead:])); err != nil {
		return nil, err
	}
	var err error
	if s.Folded, err = t.Folded(); err != nil {
		return nil, err
	}
	// Before the rows: what a former owner had is not more than its row has then.
	if err := t.readFormers(s, le.Uint64(head[layout.HdrFormersHead:])); err != nil {
		return nil, err
	}
	used := min(le.Uint32(head[layout.HdrRowsUsed:]), t.Geometry.Rows.Capacity)
	if err := t.eachPage(used, func(page uint64, b []byte) { t.sumPage(s, page, b) }); err != nil {
		return nil, err
	}
	return s, t.readFired(s)
}

// eachPage calls use with the pages of the first n rows that hold data. Page 0
// is the first of row 0.
func (t *Table) eachPage(n uint32, use func(page uint64, b []byte)) error {
	pages := layout.Section{Offset: t.Geometry.Rows.Offset, EntrySize: layout.PageSize}
	count := uint64(n) * uint64(t.Geometry.Rows.EntrySize) / layout.PageSize
	return t.EachData(pages, count, func(page uint64, b []byte) error {
		for ; len(b) > 0; b = b[layout.PageSize:] {
			use(page, b[:layout.PageSize])
			page++
		}
		return nil
	})
}

// sumPage adds one page of the rows to s.
func (t *Table) sumPage(s *Snapshot, page uint64, b []byte) {
	perRow := uint64(t.Geometry.Rows.EntrySize) / layout.PageSize
	row, inRow := page/perRow, page%perRow
	if inRow == 0 {
		if r := layout.DecodeRow(uint32(row), b); r.State != layout.RowNever {
			s.Rows = append(s.Rows, r)
		}
	}
	first, b := countersOf(inRow, b)
	end := first + uint64(len(b)/8)
	calls := t.addUnread(s, first, b)
	for i := t.firstCounter(first); i < len(t.byCounter) && uint64(t.counter(i)) < end; i++ {
		at := (uint64(t.counter(i)) - first) * 8
		n := le.Uint64(b[at:]) &^ layout.CounterFired
		s.Calls[t.byCounter[i]] += n
		calls += n
	}
	if calls == 0 {
		return
	}
	if n := len(s.Rows); n == 0 || s.Rows[n-1].Index != uint32(row) {
		s.Rows = append(s.Rows, layout.Row{Index: uint32(row)}) // its header is a hole: it is damaged
	}
	s.Rows[len(s.Rows)-1].Calls += calls
}

// firstCounter returns the index in byCounter of the first counter from n on.
func (t *Table) firstCounter(n uint64) int {
	return sort.Search(len(t.byCounter), func(i int) bool { return uint64(t.counter(i)) >= n })
}

func (t *Table) counter(i int) uint32 { return t.Functions[t.byCounter[i]].Counter }

// readFired notes which functions have crossed their thresholds.
func (t *Table) readFired(s *Snapshot) error {
	return t.eachCounted(t.Geometry.Fired, t.Counters, func(function uint32, b []byte) {
		if fired := le.Uint32(b); fired == layout.FiredArmed || fired == layout.FiredNever {
			return
		}
		if s.hot == nil {
			s.hot = make([]bool, len(t.Functions))
		}
		s.hot[function] = true
	})
}

// eachCounted calls use with the entries of a section that has one for each
// counter, as far as they are not in holes and a function has that counter.
func (t *Table) eachCounted(s layout.Section, count uint32, use func(function uint32, b []byte)) error {
	size := uint64(s.EntrySize)
	return t.EachData(s, uint64(count), func(first uint64, b []byte) error {
		end := first + uint64(len(b))/size
		for i := t.firstCounter(first); i < len(t.byCounter) && uint64(t.counter(i)) < end; i++ {
			use(t.byCounter[i], b[(uint64(t.counter(i))-first)*size:])
		}
		return nil
	})
}

// ByCounter yields the functions that have a counter, as their index in
// Table.Functions, with that counter, which rises.
func (t *Table) ByCounter() iter.Seq2[int, uint32] {
	return func(yield func(int, uint32) bool) {
		for i, function := range t.byCounter {
			if !yield(int(function), t.counter(i)) {
				return
			}
		}
	}
}
