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
	var all []RowCalls
	for k := range s.Rows {
		r := &s.Rows[k]
		at := t.Geometry.Rows.Offset + uint64(r.Index)*uint64(t.Geometry.Rows.EntrySize) + layout.RowCounters + 8*uint64(f.Counter)
		n, err := t.U64(int64(at))
		if err != nil {
			return nil, err
		}
		if n &^= layout.CounterFired; n > 0 {
			all = append(all, RowCalls{r.Pid, r.Tid, r.Base > 0 || r.Kind == layout.RowShared || former[r.Index], n})
		}
	}
	return all, nil
}
