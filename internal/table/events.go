package table

import (
	"cmp"
	"slices"
	"time"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Event is the record of a function crossing its threshold.
type Event struct {
	Time     time.Time
	Calls    uint64 // of all rows together when it fired
	Function int    // index in Table.Functions; -1 if it came after the table was opened
	Row      uint32
	Pid, Tid uint32
	Outcome  Outcome
	Slot     uint64 // its number in the table
}

// Outcome says what became of an event: Outcome*.
type Outcome uint32

var outcomes = [...]string{
	layout.OutcomeNone: "none", layout.OutcomeQueued: "queued", layout.OutcomeRunning: "running", layout.OutcomeReturned: "returned",
	layout.OutcomeRedirected: "redirected", layout.OutcomeRestored: "restored", layout.OutcomeCrashed: "crashed",
	layout.OutcomeDropped: "dropped", layout.OutcomeGone: "gone", layout.OutcomeRefused: "refused",
}

func (o Outcome) String() string {
	if int(o) < len(outcomes) {
		return outcomes[o]
	}
	return "?"
}

// Events returns the records of threshold crossings, oldest first. A record
// that a thread is writing at this moment is left out.
func (t *Table) Events() ([]Event, error) {
	var b [8]byte
	if err := t.ReadAt(b[:], layout.HdrEventsHead); err != nil {
		return nil, err
	}
	var all []Event
	claimed := min(le.Uint64(b[:]), uint64(t.Geometry.Events.Capacity))
	size := int(t.Geometry.Events.EntrySize)
	err := t.EachData(t.Geometry.Events, claimed, func(slot uint64, b []byte) error {
		for ; len(b) > 0; b = b[size:] {
			slot++
			if le.Uint64(b[layout.EvSeq:]) == slot {
				all = append(all, t.decodeEvent(b))
			}
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return all, err
}

func (t *Table) decodeEvent(b []byte) Event {
	since := time.Duration(le.Uint64(b[layout.EvTime:]) - t.Monotonic)
	e := Event{
		Slot:     le.Uint64(b[layout.EvSeq:]) - 1,
		Time:     t.Realtime.Add(since),
		Calls:    le.Uint64(b[layout.EvCount:]) &^ layout.CounterFired,
		Function: t.functionOf(le.Uint32(b[layout.EvCounter:])),
		Row:      le.Uint32(b[layout.EvRow:]),
		Pid:      le.Uint32(b[layout.EvPid:]),
		Tid:      le.Uint32(b[layout.EvTid:]),
	}
	if len(b) >= layout.EvEntrySize && t.Geometry.Events.EntrySize >= layout.EvEntrySize {
		e.Outcome = Outcome(le.Uint32(b[layout.EvOutcome:]))
	}
	return e
}

func (t *Table) functionOf(counter uint32) int {
	i, found := slices.BinarySearchFunc(t.byCounter, counter, func(f, c uint32) int {
		return cmp.Compare(t.Functions[f].Counter, c)
	})
	if !found {
		return -1
	}
	return int(t.byCounter[i])
}
