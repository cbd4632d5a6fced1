package table

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// keptBaselines is how many baselines a compact table has room for: one in force,
// one that takes its place.
const keptBaselines = 2

// ErrInUse says that a process may have the table open or mapped.
var ErrInUse = errors.New("a process counts into it, or reads it")

// Compact writes the table at path anew without the room that is for what a program
// might still load or count, so that the file is about as large as what it holds,
// also for programs that know no holes. Nobody may have it open. The file with
// that name is another one then.
func Compact(path string) error {
	f, size, err := openRegular(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := compact(f, size, path); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// compact holds a write lease meanwhile, so that nobody begins to count.
func compact(f *os.File, size int64, path string) error {
	switch err := lease(f, syscall.F_WRLCK); err {
	case nil:
	case syscall.EAGAIN:
		return ErrInUse
	default:
		return os.NewSyscallError("fcntl", err)
	}
	defer lease(f, syscall.F_UNLCK)
	return replace(path, func(to *os.File) error {
		t := &Table{r: f, size: size}
		if err := t.readHead(); err != nil {
			return err
		}
		fi, err := f.Stat()
		if err != nil {
			return err
		}
		if err := to.Chmod(fi.Mode().Perm()); err != nil {
			return err
		}
		if owner(fi) != os.Geteuid() {
			return fmt.Errorf("it is another user's: %w", fs.ErrPermission)
		}
		head := make([]byte, HeaderSize)
		if _, err := readAt(f, head, 0); err != nil {
			return err
		}
		return t.writeCompact(to, head)
	})
}

// replace has write fill a new file, which takes the place of path when it is
// whole.
func replace(path string, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".dynprof-*") // mode 0600
	if err != nil {
		return err
	}
	defer f.Close()
	f.Chmod(0o600) // whatever the umask
	if err = write(f); err == nil {
		if err = f.Close(); err == nil {
			err = os.Rename(f.Name(), path)
		}
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// compact lays g out anew with room for what is in use only.
func (g *Geometry) compact(head []byte) Geometry {
	p := Geometry{Size: HeaderSize, Counters: g.Counters, CountersCap: g.Counters}
	tight := func(s Section, count uint64) Section {
		if s.Capacity == 0 {
			return s // written by an older version
		}
		n := int(min(count, uint64(s.Capacity)))
		return p.add(n, n, s.EntrySize)
	}
	p.Formers = tight(g.Formers, le.Uint64(head[HdrFormersHead:]))
	p.Missed = tight(g.Missed, uint64(le.Uint32(head[HdrMissedHead:])))
	p.Events = tight(g.Events, le.Uint64(head[HdrEventsHead:]))
	p.Fired = tight(g.Fired, uint64(g.Counters))
	p.Objects = tight(g.Objects, uint64(g.Objects.Count))
	p.Functions = tight(g.Functions, uint64(g.Functions.Count))
	p.Aliases = tight(g.Aliases, uint64(g.Aliases.Count))
	p.Strings = tight(g.Strings, uint64(g.Strings.Count))
	rows := min(le.Uint32(head[HdrRowsUsed:]), g.Rows.Capacity)
	if g.Baselines.Capacity > 0 {
		size := roundUp(BlCounts + 8*(uint64(p.CountersCap)+uint64(rows)))
		p.Baselines = p.add(keptBaselines, keptBaselines, uint32(size))
	}
	p.Rows = p.add(int(rows), int(rows), uint32(roundUp(RowCounters+8*uint64(p.CountersCap))))
	return p
}

// writeCompact writes the table with that header to an empty file, in the order
// of the file: notes of former owners and the baseline come before the rows, so
// that no count is smaller than in those. The header comes last.
func (t *Table) writeCompact(to *os.File, head []byte) error {
	g := &t.Geometry
	p := g.compact(head)
	if err := to.Truncate(int64(p.Size)); err != nil {
		return roomHint(to.Name(), err)
	}
	for _, s := range [][2]Section{
		{g.Formers, p.Formers}, {g.Missed, p.Missed}, {g.Events, p.Events}, {g.Fired, p.Fired},
		{g.Objects, p.Objects}, {g.Functions, p.Functions}, {g.Aliases, p.Aliases}, {g.Strings, p.Strings},
	} {
		if err := t.move(to, s[0], s[1].Offset, uint64(s[1].Capacity)); err != nil {
			return err
		}
	}
	if err := t.moveBaseline(to, head, &p); err != nil {
		return err
	}
	if err := t.moveRows(to, &p); err != nil {
		return err
	}
	encodeGeometry(head, &p)
	return writeAt(to, head, 0)
}

func writeAt(to *os.File, b []byte, at uint64) error {
	if _, err := to.WriteAt(b, int64(at)); err != nil {
		return roomHint(to.Name(), err)
	}
	return nil
}

// move copies the first count entries of s to that offset, but for holes.
func (t *Table) move(to *os.File, s Section, offset, count uint64) error {
	size := uint64(s.EntrySize)
	return t.eachData(s, count, func(first uint64, b []byte) error {
		return writeAt(to, b, offset+first*size)
	})
}

// moveBaseline copies the baseline in force and makes it the first in head.
func (t *Table) moveBaseline(to *os.File, head []byte, p *Geometry) error {
	word := le.Uint64(head[HdrBaseline:])
	if t.Geometry.Baselines.Capacity == 0 || word == 0 {
		le.PutUint32(head[HdrBaselinesTaken:], 0)
		return nil
	}
	number := baselineIn(word)
	if number >= t.Geometry.Baselines.Capacity {
		return corrupt("baseline %d of %d", number, t.Geometry.Baselines.Capacity)
	}
	le.PutUint64(head[HdrBaseline:], word&^0xff|1)
	le.PutUint32(head[HdrBaselinesTaken:], 1)
	from := t.Geometry.Baselines.Offset + uint64(number)*uint64(t.Geometry.Baselines.EntrySize)
	counters, rows := t.baselineParts(from)
	newCounters, newRows := (&Table{Geometry: *p}).baselineParts(p.Baselines.Offset)
	return errors.Join(
		t.move(to, Section{Offset: from, EntrySize: BlCounts}, p.Baselines.Offset, 1),
		t.move(to, counters, newCounters.Offset, uint64(p.Counters)),
		t.move(to, rows, newRows.Offset, uint64(p.Rows.Capacity)))
}

// moveRows copies the pages of rows that hold counts: room that was taken for a
// row, and zeros that somebody has read, are data for some file systems.
func (t *Table) moveRows(to *os.File, p *Geometry) error {
	perRow, stride := uint64(t.Geometry.Rows.EntrySize)/PageSize, uint64(p.Rows.EntrySize)
	pages := Section{Offset: t.Geometry.Rows.Offset, EntrySize: PageSize}
	return t.eachData(pages, uint64(p.Rows.Capacity)*perRow, func(page uint64, b []byte) error {
		for n := uint64(1); len(b) > 0; b, page = b[n*PageSize:], page+n {
			n = 1
			row, at := page/perRow, page%perRow*PageSize
			if at >= stride || bytes.Equal(b[:PageSize], zeros[:]) {
				continue
			}
			for end := (n + 1) * PageSize; at+end <= stride && end <= uint64(len(b)) && !bytes.Equal(b[end-PageSize:end], zeros[:]); end += PageSize {
				n++
			}
			if err := writeAt(to, b[:n*PageSize], p.Rows.Offset+row*stride+at); err != nil {
				return err
			}
		}
		return nil
	})
}

var zeros [PageSize]byte
