// Package regions is the file beside a count table that says which accesses to chosen memory a
// program has made, in which order, as hotspots run --regions records them (docs/regions.md),
// and the ring that they come from.
package regions

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"syscall"

	"github.com/dynprof/dynprof/internal/table/beside"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Version is that of the format. In files of version 1 each record is an access.
const Version = 2

// fileHead is what the file begins with.
const fileHead = `{"dynprof_regions":`

// PathOf is where the accesses of the table at a path are.
func PathOf(table string) string { return table + ".regions" }

// head is the file's first line. Behind it are parts: what they are, the length of what they
// hold, that, and a sum of it all. A part that is not complete is the last: who wrote it was
// killed.
type head struct {
	Version int    `json:"dynprof_regions"`
	Table   string `json:"table"` // nonce of the count table, hex digits
}

// Parts.
const (
	partRegion  = 'g' // Region, as JSON; a later one of the same number counts
	partSites   = 's' // a number (u32) and a site (u64) each
	partName    = 'n' // markName, as JSON
	partRecords = 'r' // records as the ring has them, in their order
	partTotal   = 'e' // Total, as JSON; the last one counts
	partAudit   = 'a' // Audit, as JSON
)

// mostPart is how large a part may be.
const mostPart = 16 << 20

// Region is memory whose accesses are recorded.
type Region struct {
	Number  uint64 `json:"number"` // from 1, in the order in which they were made
	Name    string `json:"name"`
	Address uint64 `json:"address"`
	Bytes   uint64 `json:"bytes"`
	Begin   uint64 `json:"begin"`   // number of the record that was next when it was made
	End     uint64 `json:"end"`     // when it was removed,
	Removed bool   `json:"removed"` // if it was
	Kinds   Kinds  `json:"kinds"`   // which accesses are recorded; 0, of older files: all

	Asked *Asked `json:"asked,omitempty"` // of an allocation site, whose regions are blocks: it has no address
}

// Kinds are which accesses are recorded.
type Kinds uint8

// What libdynprof/resident/table/regions.h has.
const (
	Loads  Kinds = 1 << iota // that read
	Stores                   // that write
	All    = Loads | Stores
)

// KindsOf are those by name, but for all.
var KindsOf = map[string]Kinds{"load": Loads, "store": Stores}

func (k Kinds) String() string {
	for name, is := range KindsOf {
		if k == is {
			return name
		}
	}
	return "all"
}

// Has reports whether such an access is recorded.
func (k Kinds) Has(load, store bool) bool {
	return k == All || load && k&Loads != 0 || store && k&Stores != 0
}

// Asked is what was asked for at an allocation site.
type Asked struct {
	Blocks uint64 `json:"blocks"` // so far, and
	Bytes  uint64 `json:"bytes"`  // their bytes, as they were asked for
	Freed  uint64 `json:"freed"`  // blocks that are gone
	Peak   uint64 `json:"peak"`   // the most bytes that a process had at a time,
	Most   uint64 `json:"most"`   // and the most blocks
	Unheld uint64 `json:"unheld"` // blocks that nothing is recorded of, as there were too many, or they were too large
	Unled  uint64 `json:"unled"`  // pieces of code whose blocks are not seen, as there were too many
}

// Site is what makes accesses: an operand of an instruction.
type Site struct {
	Address uint64 // of the instruction, where it always was
	Size    uint32
	Load    bool
	Store   bool
	Second  bool // operand
	Atomic  bool
}

// Access is a record.
type Access struct {
	Address uint64
	Thread  uint32
	Site    uint32
	Region  uint32 // its number
}

// Event is a record that is no access: it is of all that come behind it.
type Event struct {
	Kind     EventKind
	Thread   uint32
	Argument uint32
	Value    uint64
}

// EventKind is what an event is.
type EventKind uint8

// The kinds that there are; others are of a later version.
const (
	Mark   EventKind = layout.RecMark   // the program has put it there: Argument is the number of its name
	Window EventKind = layout.RecWindow // recording had been off: Value is how often it has gone on
	Time   EventKind = layout.RecTime   // what is behind it came at this time or later: Value is the time-stamp counter
)

// markName is the name of marks.
type markName struct {
	Number uint32 `json:"number"`
	Name   string `json:"name"`
}

// Total is what is known at the end, or was when it was written.
type Total struct {
	Records uint64 `json:"records"`   // accesses that were taken
	Waits   uint64 `json:"waits"`     // how often a thread has waited, as the ring was full,
	Waited  uint64 `json:"waited_ns"` // and for how long all together
	Lost    uint64 `json:"lost"`      // accesses that were not recorded, as nobody took records, or could write them
	Untold  uint64 `json:"untold"`    // that were not as there were too many instructions
	Unmade  uint64 `json:"unmade"`    // mappings of files that are no regions: there were too many at a time, or they are too large
	Ended   bool   `json:"ended"`     // the program has

	Names map[uint32]string `json:"names,omitempty"` // of threads, as far as they are known
	Clock Clock             `json:"clock,omitzero"`  // of times that were noted
}

// Clock says what the time-stamp counter was when, by CLOCK_MONOTONIC; 0: it is not known.
type Clock struct {
	From    uint64 `json:"from"` // the start,
	FromNS  uint64 `json:"from_ns"`
	Until   uint64 `json:"until"` // and later on
	UntilNS uint64 `json:"until_ns"`
}

// Since is how many nanoseconds behind the start a time is; false: it is not known.
func (c *Clock) Since(tsc uint64) (ns uint64, ok bool) {
	if c.From == 0 || tsc < c.From || c.Until <= c.From || c.UntilNS <= c.FromNS {
		return 0, false
	}
	high, low := bits.Mul64(tsc-c.From, c.UntilNS-c.FromNS)
	if high >= c.Until-c.From {
		return 0, false // no counter was there so long
	}
	ns, _ = bits.Div64(high, low, c.Until-c.From)
	return ns, true
}

// Errors of reading.
var (
	ErrNone    = errors.New("accesses were not recorded") // there is no such file, or of another table
	errDamaged = errors.New("a damaged file of accesses")
)

// File is what a file holds but for its records.
type File struct {
	Regions []Region
	Sites   map[uint32]Site
	Total   Total
	Names   map[uint32]string // of marks
	Records uint64            // accesses that there are
	Audit   *Audit            // nil: there was none

	path     string
	all      uint64         // records, with those that are no access
	byNumber map[uint64]int // place in Regions
}

func newFile(path string) *File {
	return &File{path: path, Sites: map[uint32]Site{}, Names: map[uint32]string{}, byNumber: map[uint64]int{}}
}

// Read reads the file of a table, whose nonce is given. Without any the error is ErrNone.
func Read(table string, nonce [16]byte) (*File, error) {
	f := newFile(PathOf(table))
	name, err := f.parts(f.add)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNone
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.path, err)
	case name != beside.Nonce(nonce):
		return nil, ErrNone
	}
	return f, nil
}

// add adds what a part holds. There are no more regions and sites than a ring has.
func (f *File) add(kind byte, body []byte) error {
	switch kind {
	case partRegion:
		var r Region
		if json.Unmarshal(body, &r) != nil || r.Number == 0 || r.Number >= layout.RgLogs {
			return errDamaged
		}
		if i, have := f.byNumber[r.Number]; have {
			f.Regions[i] = r
			return nil
		}
		f.byNumber[r.Number] = len(f.Regions)
		f.Regions = append(f.Regions, r)
	case partSites:
		for ; len(body) >= siteSize; body = body[siteSize:] {
			number := le.Uint32(body)
			if number >= layout.RgSiteMax {
				return errDamaged
			}
			f.Sites[number] = decodeSite(le.Uint64(body[4:]))
		}
	case partName:
		var n markName
		if json.Unmarshal(body, &n) != nil || n.Number >= layout.RgNameMax {
			return errDamaged
		}
		f.Names[n.Number] = n.Name
	case partRecords:
		n := uint64(len(body)) / RecordSize
		f.all += n
		f.Records += n - events(body)
	case partAudit:
		f.Audit = &Audit{}
		if json.Unmarshal(body, f.Audit) != nil {
			return errDamaged
		}
	case partTotal:
		if json.Unmarshal(body, &f.Total) != nil {
			return errDamaged
		}
	default:
		return errDamaged
	}
	return nil
}

// Each calls use with each access that there was when the file was read, in the order in which threads came
// to them.
func (f *File) Each(use func(*Access)) error { return f.Walk(use, func(*Event) {}) }

// Walk is as Each, and calls event with what is no access, in its place.
func (f *File) Walk(use func(*Access), event func(*Event)) error {
	n := uint64(0)
	_, err := f.parts(func(kind byte, body []byte) error {
		if kind != partRecords {
			return nil
		}
		most := (f.all - n) * RecordSize
		body = body[:min(uint64(len(body)), most)]
		n += uint64(len(body)) / RecordSize
		eachOf(body, use, event)
		return nil
	})
	return err
}

func eachOf(body []byte, use func(*Access), event func(*Event)) {
	for ; len(body) >= RecordSize; body = body[RecordSize:] {
		low, high := le.Uint64(body), le.Uint64(body[8:])
		if isEvent(high) {
			e := decodeEvent(low, high)
			event(&e)
			continue
		}
		a := decodeRecord(low, high)
		use(&a)
	}
}

// parts calls use with each part, and says of which table they are.
func (f *File) parts(use func(kind byte, body []byte) error) (table string, err error) {
	file, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if fi, err := file.Stat(); err != nil || !fi.Mode().IsRegular() {
		return "", errors.Join(err, errDamaged)
	}
	return readParts(bufio.NewReaderSize(file, 1<<20), use)
}

func readParts(r *bufio.Reader, use func(kind byte, body []byte) error) (table string, err error) {
	line, err := r.ReadSlice('\n')
	var h head
	if err != nil || json.Unmarshal(line, &h) != nil {
		return "", errDamaged
	}
	if h.Version < 1 || h.Version > Version {
		return "", fmt.Errorf("a file of accesses of version %d: this hotspots knows those up to %d", h.Version, Version)
	}
	var part []byte
	for {
		first, err := r.Peek(1 + binary.MaxVarintLen64)
		if len(first) < 2 {
			return h.Table, nonEOF(err)
		}
		length, n := binary.Uvarint(first[1:])
		if n == 0 {
			return h.Table, nil // it was being written
		}
		if n < 0 || length > mostPart {
			return "", errDamaged
		}
		size := 1 + n + int(length) + beside.SumSize
		if cap(part) < size {
			part = make([]byte, size)
		}
		part = part[:size]
		if _, err := io.ReadFull(r, part); err != nil {
			return h.Table, nonEOF(err)
		}
		if !beside.IsWhole(part) {
			return "", errDamaged
		}
		if err := use(part[0], part[1+n:size-beside.SumSize]); err != nil {
			return "", err
		}
	}
}

// nonEOF is an error that is not the end of the file, or of what has been written of it.
func nonEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

var le = binary.LittleEndian

const (
	RecordSize = 16
	siteSize   = 12

	addressMask = 1<<layout.RecAddressBits - 1
	threadMask  = 1<<layout.RecThreadBits - 1
	siteMask    = 1<<layout.RecSiteBits - 1
)

func decodeRecord(low, high uint64) Access {
	return Access{
		Address: low & addressMask, Thread: uint32(high & threadMask), Site: uint32(high >> layout.RecThreadBits & siteMask),
		Region: uint32(high >> (layout.RecThreadBits + layout.RecSiteBits)),
	}
}

func isEvent(high uint64) bool { return high>>layout.RecEventBit != 0 }

// events is how many records are no accesses.
func events(records []byte) (n uint64) {
	for at := 8; at+8 <= len(records); at += RecordSize {
		n += le.Uint64(records[at:]) >> layout.RecEventBit
	}
	return n
}

func decodeEvent(low, high uint64) Event {
	const valueAt, argumentAt = layout.RecThreadBits, layout.RecThreadBits + layout.RecValueBits
	return Event{
		Kind: EventKind(high >> (argumentAt + layout.RecArgBits) & (1<<(layout.RecEventBit-argumentAt-layout.RecArgBits) - 1)), Thread: uint32(high & threadMask),
		Argument: uint32(high >> argumentAt & (1<<layout.RecArgBits - 1)),
		Value:    low&addressMask | high>>valueAt&(1<<layout.RecValueBits-1)<<layout.RecAddressBits,
	}
}

// What a site says behind the address: emit.Record.
const (
	sizeMask   = 1<<13 - 1
	siteLoad   = 1 << 13
	siteStore  = 1 << 14
	siteSecond = 1 << 15
	siteAtomic = 1 << 16
)

func decodeSite(v uint64) Site {
	what := v >> layout.SiteAddressBits
	return Site{
		Address: v & (1<<layout.SiteAddressBits - 1), Size: uint32(what & sizeMask),
		Load: what&siteLoad != 0, Store: what&siteStore != 0, Second: what&siteSecond != 0, Atomic: what&siteAtomic != 0,
	}
}

// Remove removes the accesses of a table, if there are any.
func Remove(table string) { beside.Remove(PathOf(table), fileHead) }

// Copy copies the accesses of one table to the place of another's, a copy of it, if there are any.
func Copy(from, to string, nonce [16]byte) error {
	f, err := Read(from, nonce)
	if errors.Is(err, ErrNone) {
		Remove(to) // of a table that was there before
		return nil
	}
	if err != nil {
		return err
	}
	w, err := create(to, nonce)
	if err != nil {
		return err
	}
	_, err = f.parts(func(kind byte, body []byte) error {
		_, err := w.Write(beside.AppendPart(nil, kind, body))
		return err
	})
	return errors.Join(err, w.Close())
}

// create begins a file, in place of one of another table.
func create(table string, nonce [16]byte) (*os.File, error) {
	Remove(table)
	f, err := os.OpenFile(PathOf(table), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s is there, and is no file of accesses: move it away, or name another table with -o", PathOf(table))
	}
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(head{Version, beside.Nonce(nonce)})
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// name is a text up to its first 0.
func name(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
