package table

import (
	"errors"
	"time"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// A reset changes no counter: only a thread may write its row. It leaves a
// baseline in the table, the counts at that moment, which readers subtract.
//
//  1. A ticket is drawn (HdrBaselineTickets), and a baseline is taken that is
//     neither in force nor being written (HdrBaselinesTaken).
//  2. The counts are read and written into it.
//  3. It is put in force with one store (HdrBaseline), unless that has been done
//     for a later ticket, which was drawn before that one's counts were read.
//     The baseline that was in force is given back.
//
// A reader that finds the same baseline in force before and after it has read
// it has read it whole. It reads the counters after that: none is smaller than
// in the baseline.

// baseline is what was counted when the counts were reset.
type baseline struct {
	time  time.Time
	calls map[uint32]uint64 // by index in Table.Functions
	rows  map[uint32]uint64 // by row
}

// errResets says that no baseline stayed in force while it was read.
var errResets = errors.New("the counts are being reset again and again")

// SinceReset is Snapshot with the counts from the last reset on, if there has
// been one.
func (t *Table) SinceReset() (*Snapshot, error) {
	b, err := t.readBaseline()
	if err != nil {
		return nil, err
	}
	s, err := t.Snapshot()
	if err != nil || b == nil {
		return s, err
	}
	for i := range s.Calls {
		s.Calls[i] -= min(s.Calls[i], b.calls[uint32(i)])
	}
	s.Reset, s.cut = b.time, b.rows
	return s, nil
}

// readBaseline reads the baseline in force; nil if there is none.
func (t *Table) readBaseline() (*baseline, error) {
	for range 100 {
		before, err := t.U64(layout.HdrBaseline)
		if err != nil || t.Geometry.Baselines.Capacity == 0 || before == 0 {
			return nil, err
		}
		b, err := t.readBaselineAt(layout.BaselineIn(before))
		if err != nil {
			return nil, err
		}
		if after, err := t.U64(layout.HdrBaseline); err != nil || after == before {
			return b, err
		}
		time.Sleep(time.Millisecond)
	}
	return nil, errResets
}

func (t *Table) readBaselineAt(number uint32) (*baseline, error) {
	s := t.Geometry.Baselines
	if number >= s.Capacity {
		return nil, layout.Corrupt("baseline %d of %d", number, s.Capacity)
	}
	at := s.Offset + uint64(number)*uint64(s.EntrySize)
	var head [layout.BlCounts]byte
	if err := t.ReadAt(head[:], int64(at)); err != nil {
		return nil, err
	}
	b := &baseline{time: time.Unix(0, int64(le.Uint64(head[layout.BlTime:]))), calls: map[uint32]uint64{}, rows: map[uint32]uint64{}}
	counters, rows := t.BaselineParts(at)
	err := t.eachCounted(counters, min(le.Uint32(head[layout.BlCounters:]), t.CountersCap), func(function uint32, entry []byte) {
		if n := le.Uint64(entry); n > 0 {
			b.calls[function] = n
		}
	})
	if err != nil {
		return nil, err
	}
	// A compact table has room for fewer rows than it had.
	return b, t.EachData(rows, uint64(min(le.Uint32(head[layout.BlRows:]), t.Geometry.Rows.Capacity)), func(first uint64, entries []byte) error {
		for ; len(entries) > 0; entries = entries[8:] {
			if n := le.Uint64(entries); n > 0 {
				b.rows[uint32(first)] = n
			}
			first++
		}
		return nil
	})
}
