// Package edit changes count tables from outside: hotspots notes how a program has
// ended, resets counts, and writes tables anew without the room that they do
// not need. The program takes no part, and may run or not.
package edit

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// ErrNoReset says that a table has no room for a baseline: an older version
// has made it.
var ErrNoReset = errors.New("the count table is of an older version, whose counts cannot be reset")

// errBusy says that all baselines are being written, or that those who wrote
// them have died.
var errBusy = errors.New("too many resets at the same time")

// Reset makes the counts of the table at path begin at 0 again, for all that
// read it by SinceReset. The program takes no part, and may run or not.
func Reset(path string) error {
	for {
		again, err := reset(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !again {
			return nil
		}
	}
}

// reset reports again if functions were added meanwhile.
func reset(path string) (again bool, err error) {
	f, err := file.Open(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return false, err
	}
	defer f.Close()
	t, err := table.Read(f)
	if err != nil {
		return false, err
	}
	if t.Geometry.Baselines.Capacity == 0 {
		return false, ErrNoReset
	}
	w, err := t.MapWords()
	if err != nil {
		return false, err
	}
	defer w.Close()
	err = file.Guard(func() (err error) {
		again, err = resetIn(t, w)
		return err
	})
	return again, err
}

var (
	errBlocks = errors.New("it counts blocks, whose counts cannot be reset: take snapshots, and compare them")
	errSites  = errors.New("it counts calls by site, and those counts cannot be reset: take snapshots, and compare them")
)

// resetIn does steps 1 to 3 of baseline.go of package table.
func resetIn(t *table.Table, w *file.Words) (again bool, err error) {
	if t.HasBlocks() {
		return false, errBlocks
	}
	if t.HasSites() {
		return false, errSites
	}
	ticket := w.Word(layout.HdrBaselineTickets).Add(1)
	number, err := takeBaseline(t, w)
	if err != nil {
		return false, err
	}
	s, err := t.Snapshot()
	if err == nil && s.Generation == t.Generation {
		err = writeBaseline(t, number, s)
	}
	if err != nil || s.Generation != t.Generation {
		giveBaseline(w, number)
		return err == nil, err
	}
	if v := w.Word(layout.HdrVersion); v.Load() < layout.VersionReset {
		v.Store(layout.VersionReset)
	}
	enforce(w, ticket, number)
	return false, nil
}

// takeBaseline takes one of the table's baselines.
func takeBaseline(t *table.Table, w *file.Words) (uint32, error) {
	taken := w.Word(layout.HdrBaselinesTaken)
	for {
		now := taken.Load()
		number := uint32(bits.TrailingZeros32(^now))
		if number >= min(t.Geometry.Baselines.Capacity, 32) {
			return 0, errBusy
		}
		if taken.CompareAndSwap(now, now|1<<number) {
			return number, nil
		}
	}
}

func giveBaseline(w *file.Words, number uint32) { w.Word(layout.HdrBaselinesTaken).And(^(1 << number)) }

// enforce puts the baseline in force, unless that has been done for a later
// ticket.
func enforce(w *file.Words, ticket, number uint32) {
	word := w.Long(layout.HdrBaseline)
	for {
		old := word.Load()
		if old != 0 && int32(uint32(old>>8)-ticket) > 0 {
			giveBaseline(w, number)
			return
		}
		if word.CompareAndSwap(old, uint64(ticket)<<8|uint64(number+1)) {
			if old != 0 {
				giveBaseline(w, layout.BaselineIn(old))
			}
			return
		}
	}
}

func writeBaseline(t *table.Table, number uint32, s *table.Snapshot) error {
	rows := uint32(0)
	for i := range s.Rows {
		rows = max(rows, s.Rows[i].Index+1)
	}
	at := t.Geometry.Baselines.Offset + uint64(number)*uint64(t.Geometry.Baselines.EntrySize)
	counters, byRow := t.BaselineParts(at)
	counters.Count, byRow.Count = t.Geometry.Counters, rows

	f := t.OS()
	calls, next := layout.NewSink(f, counters), uint32(0)
	for function, counter := range t.ByCounter() {
		for ; next <= counter; next++ {
			calls.Entry(8)
		}
		le.PutUint64(calls.Last(8), s.Calls[function])
	}
	head := layout.NewSink(f, layout.Section{Offset: at})
	b := head.Entry(layout.BlCounts)
	le.PutUint64(b[layout.BlTime:], uint64(time.Now().UnixNano()))
	le.PutUint32(b[layout.BlCounters:], next)
	le.PutUint32(b[layout.BlRows:], rows)

	ofRows, next := layout.NewSink(f, byRow), uint32(0)
	for i := range s.Rows {
		for ; next <= s.Rows[i].Index; next++ {
			ofRows.Entry(8)
		}
		le.PutUint64(ofRows.Last(8), s.Rows[i].Calls)
	}
	for _, s := range []*layout.Sink{calls, ofRows, head} {
		if err := s.Flush(); err != nil {
			return err
		}
	}
	return nil
}
