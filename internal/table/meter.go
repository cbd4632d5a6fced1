package table

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Meter reads the counts of one table again and again. It keeps no ledger in
// memory, so that one process can watch thousands of programs; names are read
// when somebody asks for them.
type Meter struct {
	layout.Header // as it was when the table was opened
	Ledger
	Generation uint32 // changes when the program loads more objects

	f     *file.File
	calls spans // the counters that functions have
	read  bool  // Ledger is of Generation
}

// Ledger is what the functions of a table are, in numbers.
type Ledger struct {
	Functions int                   // entries, excluded addresses among them
	Counted   int                   // functions whose calls are counted
	Skipped   map[ledger.Reason]int // the others, by reason; without excluded addresses
}

// Reading is what a Meter has read. One Reading may serve several meters, one
// after the other.
type Reading struct {
	Calls   []uint64 // by counter, those that no function has left out
	Total   uint64   // the sum of Calls
	Threads int      // rows that a thread owns
	Events  uint64   // functions that have crossed their thresholds
	// TranslatorFailures is as in Snapshot.
	TranslatorFailures uint64

	buf []byte
}

// Named is a function with its object.
type Named struct {
	Counter uint32 // index in Reading.Calls
	Address uint64 // ELF virtual address
	Name    string // as in the ELF file; empty if it has none
	Object  string // path
}

// OpenMeter opens the table at path for reading. Close it after use.
func OpenMeter(path string) (*Meter, error) {
	f, err := file.OpenHead(path, os.O_RDONLY|syscall.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	return &Meter{Header: f.Header, f: f}, nil
}

// NewMeter reads a table of size bytes, as NewReader does.
func NewMeter(r io.ReaderAt, size int64) (*Meter, error) {
	f := file.New(r, size)
	if err := f.ReadHead(); err != nil {
		return nil, err
	}
	return &Meter{Header: f.Header, f: f}, nil
}

// Close releases the file.
func (m *Meter) Close() error { return m.f.Close() }

// Path is the name that the table was opened by.
func (m *Meter) Path() string { return m.f.Path() }

// File is the table's file.
func (m *Meter) File() *file.File { return m.f }

// Read reads the counts as they are now, and the Ledger if it has changed.
func (m *Meter) Read(r *Reading) error {
	if err := m.readOnce(r); err != nil {
		return fmt.Errorf("%s: %w", m.f.Path(), err)
	}
	return nil
}

func (m *Meter) readOnce(r *Reading) error {
	if r.buf == nil {
		r.buf = make([]byte, layout.Chunk)
	}
	head := r.buf[:layout.HdrTranslatorFailures+8]
	if err := m.f.ReadAt(head, 0); err != nil {
		return err
	}
	if err := m.f.CheckWhole(head, m.Nonce); err != nil {
		return err
	}
	generation := le.Uint32(head[layout.HdrGeneration:])
	used := min(le.Uint32(head[layout.HdrRowsUsed:]), m.f.Geometry.Rows.Capacity)
	r.Events = le.Uint64(head[layout.HdrEventsHead:])
	r.TranslatorFailures = le.Uint64(head[layout.HdrTranslatorFailures:])
	if !m.read || generation != m.Generation {
		if err := m.readLedger(); err != nil {
			return err
		}
		m.Generation, m.read = generation, true
	}
	return m.readRows(r, used)
}

// readLedger streams through the functions.
func (m *Meter) readLedger() error {
	if err := m.f.ReadHead(); err != nil {
		return err
	}
	l, calls := Ledger{Skipped: map[ledger.Reason]int{}}, spans(nil)
	err := m.f.EachEntry(m.f.Geometry.Functions, func(b []byte) error {
		if layout.AllZero(b[:layout.FnEntrySize]) {
			return layout.Corrupt("function %d is empty", l.Functions)
		}
		if counter := le.Uint32(b[layout.FnCounter:]); counter < m.f.Geometry.Counters {
			calls.add(counter)
		}
		l.Functions++
		reason := ledger.Reason(b[layout.FnReason])
		switch {
		case ledger.Tactic(b[layout.FnTactic]) != ledger.TacticNone && le.Uint32(b[layout.FnCounter:]) != layout.NoCounter:
			l.Counted++
		case !reason.Excluded():
			l.Skipped[reason]++
		}
		return nil
	})
	m.Ledger, m.calls = l, calls.inOrder()
	return err
}

// readRows sums up the rows.
func (m *Meter) readRows(r *Reading, used uint32) error {
	counters := m.calls.count()
	r.Calls = slices.Grow(r.Calls[:0], counters)[:counters]
	clear(r.Calls)
	r.Threads = 0
	perRow := uint64(m.f.Geometry.Rows.EntrySize) / layout.PageSize
	pages := layout.Section{Offset: m.f.Geometry.Rows.Offset, EntrySize: layout.PageSize}
	err := m.f.EachDataIn(r.buf, pages, uint64(used)*perRow, func(page uint64, b []byte) error {
		for ; len(b) > 0; b = b[layout.PageSize:] {
			r.addPage(page%perRow, b[:layout.PageSize], m.calls)
			page++
		}
		return nil
	})
	r.Total = 0
	for _, n := range r.Calls {
		r.Total += n
	}
	return err
}

// addPage adds the n-th page of a row.
func (r *Reading) addPage(n uint64, b []byte, calls spans) {
	first := n*(layout.PageSize/8) - layout.RowCounters/8
	if n == 0 {
		if row := layout.DecodeRow(0, b); row.Held() {
			r.Threads++
		}
		first, b = 0, b[layout.RowCounters:]
	}
	end := first + uint64(len(b)/8)
	for i := calls.from(first); i < len(calls) && uint64(calls[i].first) < end; i++ {
		s := &calls[i]
		for k := max(uint64(s.first), first); k < min(uint64(s.end), end); k++ {
			r.Calls[s.before+uint32(k)-s.first] += le.Uint64(b[8*(k-first):]) &^ layout.CounterFired
		}
	}
}

// errStop ends a pass through the functions.
var errStop = errors.New("enough")

// Names calls use with the functions that have a counter for which want is
// true, or all if it is nil, until use returns false.
func (m *Meter) Names(want func(counter uint32) bool, use func(Named) bool) error {
	objects := map[uint16]string{}
	err := m.f.EachEntry(m.f.Geometry.Functions, func(b []byte) error {
		counter := le.Uint32(b[layout.FnCounter:])
		at, ok := m.calls.place(counter)
		n := Named{Counter: at, Address: le.Uint64(b[layout.FnAddress:])}
		if counter == layout.NoCounter || !ok || want != nil && !want(n.Counter) {
			return nil
		}
		object := le.Uint16(b[layout.FnObject:])
		path, ok := objects[object]
		if !ok {
			var err error
			if path, err = m.objectPath(object); err != nil {
				return err
			}
			objects[object] = path
		}
		n.Object = path
		var err error
		if n.Name, err = m.f.String(le.Uint32(b[layout.FnName:])); err != nil {
			return err
		}
		if !use(n) {
			return errStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return fmt.Errorf("%s: %w", m.f.Path(), err)
	}
	return nil
}

func (m *Meter) objectPath(i uint16) (string, error) {
	s := m.f.Geometry.Objects
	if uint32(i) >= s.Count {
		return "", layout.Corrupt("object %d of %d", i, s.Count)
	}
	var b [4]byte
	if err := m.f.ReadAt(b[:], int64(s.Offset)+int64(i)*int64(s.EntrySize)+layout.ObjPath); err != nil {
		return "", err
	}
	return m.f.String(le.Uint32(b[:]))
}
