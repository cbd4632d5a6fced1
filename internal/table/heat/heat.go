// Package heat is the file beside a count table that says which pages of memory, or smaller
// granules, its program has read, written and executed, and when, as hotspots run --heat notes
// them, or another tool's log of its accesses has them (docs/heat.md), and the shadow in which the
// former does so.
package heat

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dynprof/dynprof/internal/table/beside"
)

// Versions of the format: of pages only; 3 has other granules, too; where slices say more; with
// who touched what, which others need not be able to read; and of another tool's log.
const (
	versionPages   = 2
	Version        = 4
	versionThreads = 5
	versionCode    = 6 // likewise, with which instruction touched what last
	versionLog     = 7 // all that is known, which pages were executed among it, is of a Source's log
)

// Lackey is the Source of a file that was made of a log of valgrind --tool=lackey --trace-mem=yes.
const Lackey = "lackey"

// PageSize is the bytes of a page.
const PageSize = 1 << Page

// fileHead is what the file begins with.
const fileHead = `{"dynprof_heat":`

// PathOf is where the pages of the table at a path are.
func PathOf(table string) string { return table + ".heat" }

// head is the file's first line. Behind it are records: what they are, the length of what they
// hold, that, and a sum of it all. A record that is not complete is the last: who wrote it was
// killed.
type head struct {
	Version int    `json:"dynprof_heat"`
	Table   string `json:"table"`             // nonce of the count table, hex digits
	Granule uint64 `json:"granule,omitempty"` // bytes of one; 0: of a page
	Source  string `json:"source,omitempty"`  // as File has it
}

// granule is what is noted; false: there is no such.
func (h *head) granule() (Granule, bool) {
	switch h.Version {
	case versionPages:
		return Page, h.Granule == 0
	case versionThreads, versionCode:
		return Page, h.Granule == PageSize
	}
	for _, g := range []Granule{Page, Line, Word} {
		if h.Granule == g.Size() {
			return g, true
		}
	}
	return 0, false
}

// Records.
const (
	recordMaps  = 'm' // Maps, as JSON; the last one counts
	recordSlice = 's' // numbers, as encode writes them
	recordWho   = 'w' // likewise, as touched.record does; the last one counts
	recordLast  = 'l' // and as lasts.record does
)

// File is what it holds.
type File struct {
	Maps
	Count   int      // of slices
	Granule Granule  // what ranges are told of: pages, if nobody asks for others
	Noted   Granule  // what was noted, and those of the records are
	Threads bool     // it was noted, too, who touched which page:
	Who     []ByWhom // by address
	Code    bool     // or which instruction touched which page last:
	Lasts   []ByLast // by address
	Source  string   // the tool whose log it was made of; empty: none's, hotspots run has noted it
	Torn    int      // bytes behind the last whole record: it was cut short, or is being written to

	without What   // what Each and From leave out
	who     []byte // their record
	table   string
	version int    // of the format of records; 0: Version
	slices  []byte // their records
	last    Slice  // the last of them
}

// In is the file by such granules, no smaller than those that were noted.
func (f *File) In(g Granule) *File {
	other := *f
	other.Granule = max(g, f.Noted)
	return &other
}

// Without is the file as if some of what was done had not been noted.
func (f *File) Without(what What) *File {
	other := *f
	other.without |= what
	return &other
}

// keep is what of ranges is not left out, in their room.
func (f *File) keep(list []Range) []Range {
	if f.without == 0 {
		return list
	}
	kept := list[:0]
	for _, r := range list {
		if r.What &^= f.without; r.What != 0 {
			kept = add(kept, r)
		}
	}
	return kept
}

// Maps is what is mapped.
type Maps struct {
	Ended    bool      `json:"ended"`                     // the mappings are those at the program's end, else it was killed, or runs:
	Time     uint64    `json:"time,omitempty"`            // they are those of so many nanoseconds since its start, 0: of its start
	Untold   bool      `json:"resident_untold,omitempty"` // what of them is in memory is not known
	Cut      bool      `json:"cut"`                       // there are more mappings
	Mappings []Mapping `json:"mappings"`
}

// Mapping is what is mapped somewhere.
type Mapping struct {
	Start    uint64 `json:"start"`
	End      uint64 `json:"end"`
	Offset   uint64 `json:"offset"`          // in the file
	Path     string `json:"path"`            // as /proc/PID/maps has it: empty for memory without a file
	Resident uint64 `json:"resident"`        // bytes that are in memory
	Inode    uint64 `json:"inode,omitempty"` // of the shadow, and of shared memory without a file
	Ours     bool   `json:"ours,omitempty"`  // dynprof's own
	Gone     bool   `json:"gone,omitempty"`  // it was there before
}

// Slice is a part of the time in which the program ran.
type Slice struct {
	Executed uint64 // instructions at its end, since the start of the program
	Time     uint64 // its end, nanoseconds since that start
	Resident uint64 // pages of the program at its end, all kinds together; 0: not known
	Parts    uint64 // slices that were made one, that one
	Counting Counting
	Minor    uint64  // page faults of the program's first process in it, of which the kernel had the page,
	Major    uint64  // and those for which it read something
	Threads  uint64  // of that process, at its end; 0: not known
	Ranges   []Range // by address
}

// Counting says whether anything was noted in a slice: what is touched while counting is paused
// is not.
type Counting uint8

// One of these, or both, if counting was paused or went on in it; none: nobody can have paused it.
const (
	CountingOn Counting = 1 << iota
	CountingOff
)

// String is what users read.
func (c Counting) String() string {
	switch c {
	case CountingOff:
		return "off"
	case CountingOn | CountingOff:
		return "both"
	}
	return "on"
}

// Errors of reading.
var (
	ErrNone    = errors.New("touched pages were not noted") // there is no such file, or of another table
	errDamaged = errors.New("a damaged file of touched pages")
)

// Read reads the pages of a table, whose nonce is given. Without any the error is ErrNone.
func Read(table string, nonce [16]byte) (*File, error) {
	return beside.Read(PathOf(table), nonce, ErrNone, Parse, func(f *File) string { return f.table })
}

// Parse reads the format: mappings and ranges are by address, and none lies upon another;
// slices are by time.
func Parse(b []byte) (*File, error) {
	f, rest, err := parse(b)
	if err == nil {
		f.Torn = len(rest)
	}
	return f, err
}

// parse also returns what is behind the last whole record.
func parse(b []byte) (f *File, rest []byte, err error) {
	line, records, whole := bytes.Cut(b, []byte("\n"))
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if h.Version > 0 && (h.Version < versionPages || h.Version > versionLog) {
		return nil, nil, fmt.Errorf("a file of touched pages of version %d: this hotspots knows %d to %d", h.Version, versionPages, versionLog)
	}
	granule, ok := h.granule()
	if h.Version <= 0 || !ok || !whole || (h.Version == versionLog) != (h.Source == Lackey) {
		return nil, nil, errDamaged
	}
	f = &File{table: h.Table, version: h.Version, Granule: Page, Noted: granule, Threads: h.Version == versionThreads, Code: h.Version == versionCode, Source: h.Source}
	rest, err = f.add(records)
	return f, rest, err
}

// add adds records, as far as they are whole: the last one may be being written. That is the
// rest.
func (f *File) add(records []byte) (rest []byte, err error) {
	for len(records) > 0 {
		kind, body, rest, err := cut(records)
		if err != nil {
			return nil, err
		}
		if rest == nil {
			break
		}
		switch kind {
		case recordMaps:
			var m Maps
			if err := json.Unmarshal(body, &m); err != nil || !m.inOrder() {
				return nil, errDamaged
			}
			f.Maps = m
		case recordSlice:
			if f.last, err = f.next(&f.last, body); err != nil {
				return nil, err
			}
			f.slices = append(f.slices, records[:len(records)-len(rest)]...)
			if f.Count++; f.Count > mostSlices+1 { // the last one is there before slices are made one
				return nil, errDamaged
			}
		case recordWho:
			if f.version != versionThreads {
				return nil, errDamaged
			}
			if f.Who, err = parseWho(body); err != nil {
				return nil, err
			}
			f.who = append([]byte(nil), records[:len(records)-len(rest)]...)
		case recordLast:
			if f.version != versionCode {
				return nil, errDamaged
			}
			if f.Lasts, err = parseLasts(body); err != nil {
				return nil, err
			}
			f.who = append([]byte(nil), records[:len(records)-len(rest)]...)
		default:
			return nil, errDamaged
		}
		records = rest
	}
	return records, nil
}

func (m *Maps) inOrder() bool {
	end := uint64(0)
	for _, m := range m.Mappings {
		if m.Start < end || m.End <= m.Start {
			return false
		}
		end = m.End
	}
	return true
}

// cut takes the first record. Without rest it is not complete.
func cut(records []byte) (kind byte, body, rest []byte, err error) {
	length, n := binary.Uvarint(records[1:])
	switch {
	case n == 0:
		return 0, nil, nil, nil
	case n < 0:
		return 0, nil, nil, errDamaged
	}
	at := uint64(1 + n)
	if have := uint64(len(records)) - at; have < beside.SumSize || have-beside.SumSize < length {
		return 0, nil, nil, nil
	}
	end := at + length
	rest = records[end+beside.SumSize:]
	if !beside.IsWhole(records[:len(records)-len(rest)]) {
		return 0, nil, nil, errDamaged
	}
	return records[0], records[at:end], rest, nil
}

// Each calls use with each slice, whose ranges are the caller's until it returns.
func (f *File) Each(use func(*Slice)) {
	if err := f.each(use); err != nil {
		panic("heat: BUG: " + err.Error()) // Parse has looked at them
	}
}

func (f *File) each(use func(*Slice)) error {
	var s Slice
	var room []Range
	for records := f.slices; len(records) > 0; {
		_, body, rest, err := cut(records)
		if err != nil {
			return err
		}
		if s, err = f.next(&s, body); err != nil {
			return err
		}
		one := s
		one.Ranges = f.keep(s.Ranges)
		if f.Granule > f.Noted {
			room = Coarse(room[:0], one.Ranges, f.Granule-f.Noted)
			one.Ranges = room
		}
		use(&one)
		records = rest
	}
	return nil
}

// encode is a slice behind that one.
func (s *Slice) encode(before *Slice) (body []byte) {
	for _, n := range []uint64{s.Executed - before.Executed, s.Time - before.Time, s.Resident, s.Parts, uint64(s.Counting), s.Minor, s.Major, s.Threads, uint64(len(s.Ranges))} {
		body = binary.AppendUvarint(body, n)
	}
	end := uint64(0)
	for _, r := range s.Ranges {
		body = binary.AppendUvarint(body, r.First-end)
		body = binary.AppendUvarint(body, r.Pages<<whatBits|uint64(r.What))
		end = r.end()
	}
	return body
}

// next reads the slice behind one of the file's, in whose room it puts the ranges.
func (f *File) next(s *Slice, body []byte) (Slice, error) {
	return s.next(body, f.Noted, f.version == 0 || f.version >= Version)
}

// numbers are those of a record, one behind the other.
type numbers struct {
	body  []byte // what is not read yet
	short bool   // more were asked for than there are, or what is there is none
}

func (n *numbers) take() uint64 {
	one, size := binary.Uvarint(n.body)
	if size <= 0 {
		n.short = true
		return 0
	}
	n.body = n.body[size:]
	return one
}

// next reads the slice behind s, in whose room it puts the ranges. Full says that it has all.
func (s *Slice) next(body []byte, g Granule, full bool) (Slice, error) {
	n := numbers{body: body}
	executed, time := n.take(), n.take()
	to := Slice{Executed: s.Executed + executed, Time: s.Time + time, Resident: n.take(), Parts: n.take(), Ranges: s.Ranges[:0]}
	if full {
		counting := n.take()
		if counting > uint64(CountingOn|CountingOff) {
			return Slice{}, errDamaged
		}
		to.Counting, to.Minor, to.Major, to.Threads = Counting(counting), n.take(), n.take(), n.take()
	}
	count := n.take()
	if to.Executed < executed || to.Time < time || to.Parts == 0 || count > uint64(len(n.body)) {
		return Slice{}, errDamaged
	}
	for end := uint64(0); count > 0; count-- {
		gap, one := n.take(), n.take()
		r := Range{Pages: one >> whatBits, What: What(one & (1<<whatBits - 1))}
		if n.short || gap > g.Count()-end || r.Pages == 0 || r.What == 0 || r.Pages > g.Count()-end-gap {
			return Slice{}, errDamaged
		}
		r.First = end + gap
		end = r.end()
		to.Ranges = append(to.Ranges, r)
	}
	if n.short || len(n.body) > 0 {
		return Slice{}, errDamaged
	}
	return to, nil
}

// bytes is the file as it is written.
func (f *File) bytes(nonce [16]byte) ([]byte, error) {
	h := head{cmp.Or(f.version, Version), beside.Nonce(nonce), f.Noted.Size(), f.Source}
	if h.Version == versionPages {
		h.Granule = 0
	}
	line, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	maps, err := f.Maps.record()
	return append(append(append(append(line, '\n'), maps...), f.slices...), f.who...), err
}

func (m *Maps) record() ([]byte, error) {
	text, err := json.Marshal(m)
	return beside.AppendPart(nil, recordMaps, text), err
}

// Write puts the file beside the table at a path.
func (f *File) Write(table string, nonce [16]byte) error {
	b, err := f.bytes(nonce)
	if err != nil {
		return err
	}
	return beside.Write(PathOf(table), fileHead, "touched pages", string(b))
}

// Copy copies the pages of one table to the place of another's, a copy of it, if there are any.
func Copy(from, to string, nonce [16]byte) error {
	f, err := Read(from, nonce)
	if errors.Is(err, ErrNone) {
		Remove(to) // of a table that was there before
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Write(to, nonce), CopyAllocs(from, to, nonce))
}

// Remove removes the pages of a table that is removed.
func Remove(table string) {
	beside.Remove(PathOf(table), fileHead)
	RemoveAllocs(table)
}
