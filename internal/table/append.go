package table

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Appender adds objects and functions to a table that a program counts into.
type Appender struct {
	Geometry // as it was when the table was opened

	f    *os.File
	path string
	head []byte
}

// ErrFull says that a table has no spare capacity left.
var ErrFull = errors.New("the count table has no room for more functions")

// OpenAppend opens the table at path, which has that nonce, and waits until no
// other process adds to it: those of a fork tree share one.
func OpenAppend(path string, nonce [16]byte) (*Appender, error) {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	a := &Appender{f: f, path: path}
	if err := a.begin(nonce); err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

func (a *Appender) begin(nonce [16]byte) error {
	if err := syscall.Flock(int(a.f.Fd()), syscall.LOCK_EX); err != nil {
		return os.NewSyscallError("flock", err)
	}
	fi, err := a.f.Stat()
	if err != nil {
		return err
	}
	_, head, err := readHeader(a.f, fi.Size())
	if err != nil {
		return err
	}
	if [16]byte(head[HdrNonce:]) != nonce {
		return fmt.Errorf("%s is not the table that was opened at the start", a.path)
	}
	g, err := decodeGeometry(head, fi.Size())
	a.Geometry, a.head = g, head
	return err
}

// ReserveUsed is how much of the reserve that is kept was taken when the table
// was opened, bytes.
func (a *Appender) ReserveUsed() uint64 { return le.Uint64(a.head[HdrReserveUsed:]) }

// Shared reports whether all threads count into one row.
func (a *Appender) Shared() bool { return le.Uint32(a.head[HdrFlags:])&FlagShared != 0 }

// Close lets go of the table.
func (a *Appender) Close() error { return a.f.Close() }

// Add writes the objects and functions of spec behind those that are there:
// the functions' objects and counters are numbers of the whole table. Room for
// the new counters is taken in all rows that are in use, and in the first.
//
//  1. The generation becomes odd.
//  2. Strings, aliases, objects and functions are stored behind the counts.
//  3. The counts are stored, what is referred to before what refers to it: if we
//     die here, and the generation stays odd, the table is sound all the same.
//  4. The generation becomes even again.
//
// A reader that saw an odd one, or two different ones, reads again.
func (a *Appender) Add(spec *Spec) error {
	nStrings, nAliases, functions, counters := measure(spec)
	g := a.Geometry
	grown := g
	grown.Objects.Count += uint32(len(spec.Objects))
	grown.Functions.Count += uint32(functions)
	grown.Aliases.Count += uint32(nAliases)
	grown.Strings.Count += uint32(nStrings)
	grown.Counters = max(g.Counters, uint32(counters))
	grown.Fired.Count = grown.Counters
	for _, s := range []Section{grown.Objects, grown.Functions, grown.Aliases, grown.Strings} {
		if s.Count > s.Capacity {
			return ErrFull
		}
	}
	if grown.Counters > g.CountersCap {
		return ErrFull
	}
	if err := a.reserve(&grown); err != nil {
		return roomHint(a.path, err)
	}
	generation := le.Uint32(a.head[HdrGeneration:]) | 1
	if err := a.store32(HdrGeneration, generation); err != nil {
		return err
	}
	if err := a.write(spec); err != nil {
		return err
	}
	for _, s := range []struct {
		at    int64
		count uint32
	}{
		{HdrCounters, grown.Counters},
		{HdrFired + SecCount, grown.Fired.Count},
		{HdrStrings + SecCount, grown.Strings.Count},
		{HdrAliases + SecCount, grown.Aliases.Count},
		{HdrObjects + SecCount, grown.Objects.Count},
		{HdrFunctions + SecCount, grown.Functions.Count},
	} {
		if err := a.store32(s.at, s.count); err != nil {
			return err
		}
	}
	if spec.Reserve != 0 {
		if _, err := a.f.WriteAt(le.AppendUint64(nil, spec.ReserveUsed), HdrReserveUsed); err != nil {
			return err
		}
	}
	return a.store32(HdrGeneration, generation+1)
}

func (a *Appender) store32(at int64, v uint32) error {
	_, err := a.f.WriteAt(le.AppendUint32(nil, v), at)
	return err
}

// write stores the entries behind those that count.
func (a *Appender) write(spec *Spec) error {
	behind := func(s Section) Section {
		s.Offset += uint64(s.Count) * uint64(s.EntrySize)
		return s
	}
	names := &stringSink{newSink(a.f, behind(a.Strings)), a.Strings.Count}
	aliases := &aliasSink{newSink(a.f, behind(a.Aliases)), a.Aliases.Count}
	return writeLedger(a.f, spec, names, aliases, behind(a.Objects), behind(a.Functions))
}

// reserve takes room for the counters that are new.
func (a *Appender) reserve(g *Geometry) error {
	t := &File{Geometry: *g, f: a.f, path: a.path}
	from, size := RowCounters+8*uint64(a.Counters), 8*uint64(g.Counters-a.Counters)
	used := min(le.Uint32(a.head[HdrRowsUsed:]), g.Rows.Capacity)
	for row := range uint64(max(used, RowsReserved)) {
		if err := t.allocate(g.Rows.Offset+row*uint64(g.Rows.EntrySize)+from, size); err != nil {
			return err
		}
	}
	if le.Uint32(a.head[HdrFlags:])&FlagThreshold == 0 {
		return nil
	}
	return t.allocate(g.Fired.Offset+4*uint64(a.Counters), size/2)
}
