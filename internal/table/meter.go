package table

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/dynprof/dynprof/internal/ledger"
)

// Meter reads the counts of one table again and again. It keeps no ledger in
// memory, so that one process can watch thousands of programs; names are read
// when somebody asks for them.
type Meter struct {
	Header
	Ledger
	Generation uint32 // changes when the program loads more objects

	t    *Table // without Objects and Functions
	read bool   // Ledger is of Generation
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
	Calls   []uint64 // by counter
	Total   uint64   // the sum of Calls
	Threads int      // rows that a thread owns
	Events  uint64   // functions that have crossed their thresholds
	// TranslatorFailures is as in Snapshot.
	TranslatorFailures uint64

	buf []byte
}

// Named is a function with its object.
type Named struct {
	Counter uint32
	Address uint64 // ELF virtual address
	Name    string // as in the ELF file; empty if it has none
	Object  string // path
}

// OpenMeter opens the table at path for reading. Close it after use.
func OpenMeter(path string) (*Meter, error) {
	f, size, err := openRegular(path, os.O_RDONLY|syscall.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	m, err := NewMeter(f, size)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.t.path, m.t.close = path, f.Close
	return m, nil
}

// NewMeter reads a table of size bytes, as NewReader does.
func NewMeter(r io.ReaderAt, size int64) (*Meter, error) {
	m := &Meter{t: &Table{r: r, size: size, close: func() error { return nil }}}
	if err := m.t.readHead(); err != nil {
		return nil, err
	}
	m.Header = m.t.Header
	return m, nil
}

// Close releases the file.
func (m *Meter) Close() error { return m.t.Close() }

// Path is the name that the table was opened by.
func (m *Meter) Path() string { return m.t.path }

// Counting reports whether some process still counts into the table.
func (m *Meter) Counting() bool { return m.t.counting() }

// Read reads the counts as they are now, and the Ledger if it has changed.
func (m *Meter) Read(r *Reading) error {
	if err := m.readOnce(r); err != nil {
		return fmt.Errorf("%s: %w", m.t.path, err)
	}
	return nil
}

func (m *Meter) readOnce(r *Reading) error {
	if r.buf == nil {
		r.buf = make([]byte, chunk)
	}
	head := r.buf[:HdrTranslatorFailures+8]
	if _, err := readAt(m.t.r, head, 0); err != nil {
		return err
	}
	if err := m.checkWhole(head); err != nil {
		return err
	}
	generation := le.Uint32(head[HdrGeneration:])
	used := min(le.Uint32(head[HdrRowsUsed:]), m.t.Geometry.Rows.Capacity)
	r.Events = le.Uint64(head[HdrEventsHead:])
	r.TranslatorFailures = le.Uint64(head[HdrTranslatorFailures:])
	if !m.read || generation != m.Generation {
		if err := m.readLedger(); err != nil {
			return err
		}
		m.Generation, m.read = generation, true
	}
	return m.readRows(r, used)
}

// checkWhole refuses a file that has been cut short since it was opened: what is
// behind its end would be taken for holes, and counts would go back.
func (m *Meter) checkWhole(head []byte) error {
	if [16]byte(head[HdrNonce:]) != m.Nonce {
		return corrupt("it is not the table that was opened")
	}
	f, ok := m.t.r.(*os.File)
	if !ok {
		return nil
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	return checkSize(head, fi.Size())
}

// readLedger streams through the functions.
func (m *Meter) readLedger() error {
	if err := m.t.readHead(); err != nil {
		return err
	}
	l := Ledger{Skipped: map[ledger.Reason]int{}}
	err := m.t.eachEntry(m.t.Geometry.Functions, func(b []byte) error {
		if allZero(b[:FnEntrySize]) {
			return corrupt("function %d is empty", l.Functions)
		}
		l.Functions++
		reason := ledger.Reason(b[FnReason])
		switch {
		case ledger.Tactic(b[FnTactic]) != ledger.TacticNone && le.Uint32(b[FnCounter:]) != NoCounter:
			l.Counted++
		case !reason.Excluded():
			l.Skipped[reason]++
		}
		return nil
	})
	m.Ledger = l
	return err
}

// readRows sums up the rows. Each counter has its function, so that there are
// no more of them, whatever the header says.
func (m *Meter) readRows(r *Reading, used uint32) error {
	counters := min(int(m.t.Counters), m.Ledger.Functions)
	r.Calls = slices.Grow(r.Calls[:0], counters)[:counters]
	clear(r.Calls)
	r.Threads = 0
	perRow := uint64(m.t.Geometry.Rows.EntrySize) / PageSize
	pages := Section{Offset: m.t.Geometry.Rows.Offset, EntrySize: PageSize}
	err := m.t.eachDataIn(r.buf, pages, uint64(used)*perRow, func(page uint64, b []byte) error {
		for ; len(b) > 0; b = b[PageSize:] {
			r.addPage(page%perRow, b[:PageSize])
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
func (r *Reading) addPage(n uint64, b []byte) {
	first := n*(PageSize/8) - RowCounters/8
	if n == 0 {
		if row := decodeRow(0, b); row.Held() {
			r.Threads++
		}
		first, b = 0, b[RowCounters:]
	}
	if first >= uint64(len(r.Calls)) {
		return
	}
	for i := range r.Calls[first:min(uint64(len(r.Calls)), first+uint64(len(b)/8))] {
		r.Calls[first+uint64(i)] += le.Uint64(b[8*i:]) &^ CounterFired
	}
}

// errStop ends a pass through the functions.
var errStop = errors.New("enough")

// Names calls use with the functions that have a counter for which want is
// true, or all if it is nil, until use returns false.
func (m *Meter) Names(want func(counter uint32) bool, use func(Named) bool) error {
	objects := map[uint16]string{}
	strings := m.t.Geometry.Strings
	err := m.t.eachEntry(m.t.Geometry.Functions, func(b []byte) error {
		n := Named{Counter: le.Uint32(b[FnCounter:]), Address: le.Uint64(b[FnAddress:])}
		if n.Counter == NoCounter || want != nil && !want(n.Counter) {
			return nil
		}
		object := le.Uint16(b[FnObject:])
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
		if n.Name, err = readString(m.t.r, strings, le.Uint32(b[FnName:])); err != nil {
			return err
		}
		if !use(n) {
			return errStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return fmt.Errorf("%s: %w", m.t.path, err)
	}
	return nil
}

func (m *Meter) objectPath(i uint16) (string, error) {
	s := m.t.Geometry.Objects
	if uint32(i) >= s.Count {
		return "", corrupt("object %d of %d", i, s.Count)
	}
	var b [4]byte
	if _, err := readAt(m.t.r, b[:], int64(s.Offset)+int64(i)*int64(s.EntrySize)+ObjPath); err != nil {
		return "", err
	}
	return readString(m.t.r, m.t.Geometry.Strings, le.Uint32(b[:]))
}
