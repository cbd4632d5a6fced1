package table

import (
	"errors"
	"os"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// most is what is known of a table of which only the functions called most were read.
type most struct {
	counters []uint64 // a bit for each counter that a function has
	changed  int      // functions whose text was changed
}

// manyCounters is how many counters a table may claim for its rows to be added up
// before its functions are looked at.
const manyCounters = 1 << 20

// OpenMost opens the table in the named file and reads of its functions only the n that
// were called most, and those called as often as the last of them: in a table of 50,000
// the names are most of the work. Snapshots have the sum of all calls. Where that is not
// so simple, because counts were reset, objects are loaded at the moment, or one is there
// twice, or a counter, it is Open.
func OpenMost(path string, n int) (*Table, error) {
	f, err := file.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if t, err := ReadMost(f, n); err == nil {
		return t, nil
	}
	f.Close()
	return Open(path)
}

// ReadMost reads the table in f as OpenMost does, if that is simple.
func ReadMost(f *file.File, n int) (*Table, error) {
	t := &Table{File: f, most: &most{}}
	before, err := t.U32(layout.HdrGeneration)
	if err != nil {
		return nil, err
	}
	if err := t.readMost(n); err != nil {
		return nil, err
	}
	if after, err := t.U32(layout.HdrGeneration); err != nil || before%2 != 0 || before != after {
		return nil, errNotSimple
	}
	return t, nil
}

var errNotSimple = errors.New("not a table of which a part can be read")

func (t *Table) readMost(n int) error {
	if err := t.ReadHead(); err != nil {
		return err
	}
	baseline, err := t.U64(layout.HdrBaseline)
	if t.HasBlocks() || t.HasSites() { // who reads them needs all functions
		return errNotSimple
	}
	if err != nil || baseline != 0 || n <= 0 || t.Counters > manyCounters {
		return errNotSimple
	}
	if err := t.readObjects(t.String); err != nil {
		return err
	}
	for i := range t.Objects {
		o := &t.Objects[i]
		if slices.ContainsFunc(t.Objects[:i], func(p layout.Object) bool { return p.Path == o.Path && p.BuildID == o.BuildID }) {
			return errNotSimple
		}
	}
	calls, err := t.SumCounters(0, t.Counters)
	if err != nil {
		return err
	}
	least, err := t.nthMost(n, calls)
	if err != nil {
		return err
	}
	if err := t.readCalled(calls, least); err != nil {
		return err
	}
	t.indexCounters()
	return nil
}

// SumCounters adds up so many counters of all rows, from one on: what a File alone says.
func (t *Table) SumCounters(from, count uint32) ([]uint64, error) {
	sums := make([]uint64, count)
	return sums, t.addCounters(from, sums)
}

// addCounters adds those from one on to sums.
func (t *Table) addCounters(from uint32, sums []uint64) error {
	used, err := t.U32(layout.HdrRowsUsed)
	if err != nil {
		return err
	}
	perRow := uint64(t.Geometry.Rows.EntrySize) / layout.PageSize
	return t.eachPage(min(used, t.Geometry.Rows.Capacity), func(page uint64, b []byte) {
		first, b := countersOf(page%perRow, b)
		for ; len(b) > 0; b, first = b[8:], first+1 {
			if i := first - uint64(from); i < uint64(len(sums)) {
				sums[i] += le.Uint64(b) &^ layout.CounterFired
			}
		}
	})
}

// countersOf are the counters in a page of a row, and the number of the first.
func countersOf(inRow uint64, page []byte) (first uint64, b []byte) {
	if inRow == 0 {
		return 0, page[layout.RowCounters:]
	}
	return (inRow*layout.PageSize - layout.RowCounters) / 8, page
}

// nthMost looks at all functions, and returns how often the n-th of them was called. It
// is 1 where no more than n were.
func (t *Table) nthMost(n int, calls []uint64) (uint64, error) {
	t.most.counters = make([]uint64, (len(calls)+63)/64)
	var called []uint64
	err := t.EachEntry(t.Geometry.Functions, func(b []byte) error {
		counter, err := t.checkFunction(b)
		if err != nil {
			return err
		}
		if ledger.Reason(b[layout.FnReason]) == ledger.ReasonTextChanged {
			t.most.changed++
		}
		if counter == layout.NoCounter {
			return nil
		}
		if t.most.counters[counter/64]>>(counter%64)&1 != 0 {
			return errNotSimple
		}
		t.most.counters[counter/64] |= 1 << (counter % 64)
		if calls[counter] > 0 {
			called = append(called, calls[counter])
		}
		return nil
	})
	if n >= len(called) || err != nil {
		return 1, err
	}
	slices.Sort(called)
	return called[len(called)-n], nil
}

// readCalled reads the functions that were called so often.
func (t *Table) readCalled(calls []uint64, least uint64) error {
	return t.EachEntry(t.Geometry.Functions, func(b []byte) error {
		counter, err := t.checkFunction(b)
		if err != nil || counter == layout.NoCounter || calls[counter] < least {
			return err
		}
		f := layout.DecodeFunction(b)
		if f.Name, err = t.String(le.Uint32(b[layout.FnName:])); err != nil {
			return err
		}
		if f.Aliases, err = t.aliasesAt(le.Uint32(b[layout.FnAliases:])); err != nil {
			return err
		}
		t.Functions = append(t.Functions, f)
		return nil
	})
}

// checkFunction checks what leads elsewhere in an entry of the functions, and returns
// the function's counter.
func (t *Table) checkFunction(b []byte) (counter uint32, err error) {
	counter = le.Uint32(b[layout.FnCounter:])
	object := le.Uint16(b[layout.FnObject:])
	if int(object) >= len(t.Objects) || counter != layout.NoCounter && counter >= t.Counters || layout.AllZero(b[:layout.FnEntrySize]) {
		return 0, layout.Corrupt("a function has object %d of %d, counter %d of %d", object, len(t.Objects), counter, t.Counters)
	}
	return counter, nil
}

// aliasesAt reads one list of the aliases; 0 is none.
func (t *Table) aliasesAt(i uint32) (names []string, err error) {
	s := t.Geometry.Aliases
	for ; i != 0; i++ {
		if i >= s.Count {
			return nil, layout.Corrupt("alias list without an end at %d", i)
		}
		offset, err := t.U32(int64(s.Offset) + int64(i)*int64(s.EntrySize))
		if err != nil || offset == 0 {
			return names, err
		}
		name, err := t.String(offset)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// TextChanged is how many functions were counted until the program changed their text.
func (t *Table) TextChanged() (n int) {
	if t.most != nil {
		return t.most.changed
	}
	for i := range t.Functions {
		if t.Functions[i].Reason == ledger.ReasonTextChanged {
			n++
		}
	}
	return n
}

// addUnread adds the calls of functions that were not read, in a page whose first counter
// is first, to s. It returns their sum.
func (t *Table) addUnread(s *Snapshot, first uint64, b []byte) (sum uint64) {
	if t.most == nil {
		return 0
	}
	read := t.firstCounter(first)
	for ; len(b) > 0 && first < uint64(t.Counters); b, first = b[8:], first+1 {
		for read < len(t.byCounter) && uint64(t.counter(read)) < first {
			read++
		}
		isRead := read < len(t.byCounter) && uint64(t.counter(read)) == first
		if !isRead && t.most.counters[first/64]>>(first%64)&1 != 0 {
			sum += le.Uint64(b) &^ layout.CounterFired
		}
	}
	s.unread += sum
	return sum
}
