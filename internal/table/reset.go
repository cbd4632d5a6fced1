package table

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"syscall"
	"time"
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
	f, size, err := openRegular(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return false, err
	}
	defer f.Close()
	t, err := NewReader(f, size)
	if err != nil {
		return false, err
	}
	if t.Geometry.Baselines.Capacity == 0 {
		return false, ErrNoReset
	}
	l, err := mapLive(f)
	if err != nil {
		return false, err
	}
	defer l.close()
	err = guard(func() (err error) {
		again, err = t.reset(l, f)
		return err
	})
	return again, err
}

// reset does steps 1 to 3 of baseline.go.
func (t *Table) reset(l *live, f *os.File) (again bool, err error) {
	ticket := l.word(HdrBaselineTickets).Add(1)
	number, err := t.takeBaseline(l)
	if err != nil {
		return false, err
	}
	s, err := t.Snapshot()
	if err == nil && s.Generation == t.Generation {
		err = t.writeBaseline(f, number, s)
	}
	if err != nil || s.Generation != t.Generation {
		l.giveBaseline(number)
		return err == nil, err
	}
	l.word(HdrVersion).Store(VersionReset)
	l.enforce(ticket, number)
	return false, nil
}

// takeBaseline takes one of the table's baselines.
func (t *Table) takeBaseline(l *live) (uint32, error) {
	taken := l.word(HdrBaselinesTaken)
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

func (l *live) giveBaseline(number uint32) { l.word(HdrBaselinesTaken).And(^(1 << number)) }

// enforce puts the baseline in force, unless that has been done for a later
// ticket.
func (l *live) enforce(ticket, number uint32) {
	word := l.long(HdrBaseline)
	for {
		old := word.Load()
		if old != 0 && int32(uint32(old>>8)-ticket) > 0 {
			l.giveBaseline(number)
			return
		}
		if word.CompareAndSwap(old, uint64(ticket)<<8|uint64(number+1)) {
			if old != 0 {
				l.giveBaseline(baselineIn(old))
			}
			return
		}
	}
}

func (t *Table) writeBaseline(f *os.File, number uint32, s *Snapshot) error {
	rows := uint32(0)
	for i := range s.Rows {
		rows = max(rows, s.Rows[i].Index+1)
	}
	at := t.Geometry.Baselines.Offset + uint64(number)*uint64(t.Geometry.Baselines.EntrySize)
	counters, byRow := t.baselineParts(at)
	counters.Count, byRow.Count = t.Counters, rows

	calls, next := newSink(f, counters), uint32(0)
	for i, function := range t.byCounter {
		for ; next <= t.counter(i); next++ {
			calls.entry(8)
		}
		le.PutUint64(calls.last(8), s.Calls[function])
	}
	head := newSink(f, Section{Offset: at})
	b := head.entry(BlCounts)
	le.PutUint64(b[BlTime:], uint64(time.Now().UnixNano()))
	le.PutUint32(b[BlCounters:], next)
	le.PutUint32(b[BlRows:], rows)

	ofRows, next := newSink(f, byRow), uint32(0)
	for i := range s.Rows {
		for ; next <= s.Rows[i].Index; next++ {
			ofRows.entry(8)
		}
		le.PutUint64(ofRows.last(8), s.Rows[i].Calls)
	}
	for _, s := range []*sink{calls, ofRows, head} {
		if s.flush(); s.err != nil {
			return s.err
		}
	}
	return nil
}
