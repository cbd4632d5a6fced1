package table

import "github.com/dynprof/dynprof/internal/table/layout"

// RowCalls is what was counted of one function in one row.
type RowCalls struct {
	Pid, Tid uint32 // of the thread that has the row, or had it when it ended; 0: not known
	Several  bool   // others had it before, or all share it: who called how often is not known
	Calls    uint64
}

// ByRow is the calls of function i, of Functions, in each row that has some, of the rows of a
// snapshot. None are told apart after a reset, which notes sums only.
func (t *Table) ByRow(s *Snapshot, i int) ([]RowCalls, error) {
	f := &t.Functions[i]
	if !f.Counted() || !s.Reset.IsZero() || f.Counter >= t.Geometry.CountersCap {
		return nil, nil
	}
	former := map[uint32]bool{}
	for i := range s.formers {
		former[s.formers[i].row] = true
	}
	rows, err := t.RowsOf(i)
	var all []RowCalls
	for _, r := range rows {
		all = append(all, RowCalls{r.Pid, r.Tid, r.Base > 0 || r.Kind == layout.RowShared || former[r.Index], r.Calls})
	}
	return all, err
}

// RowsOf reads how often function i was called in each row, from when the program began on,
// whatever was reset: a reset knows sums of rows and of functions. Rows without calls of it
// are left out, Row.Calls are those of the function, and Row.Base is as in the table, those
// of all functions: where it is not 0, the row had other owners before.
func (t *Table) RowsOf(i int) (rows []layout.Row, err error) {
	counter := t.Functions[i].Counter
	if counter == layout.NoCounter {
		return nil, nil
	}
	var broken error
	err = t.EachRow(func(r layout.Row) {
		at := t.Geometry.Rows.Offset + uint64(r.Index)*uint64(t.Geometry.Rows.EntrySize) + layout.RowCounters + 8*uint64(counter)
		n, err := t.U64(int64(at))
		if err != nil {
			broken = err
			return
		}
		if r.Calls = n &^ layout.CounterFired; r.Calls > 0 {
			rows = append(rows, r)
		}
	})
	if broken != nil {
		err = broken
	}
	return rows, err
}
