package edit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
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
	f, err := file.Open(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := compact(f, path); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

var le = binary.LittleEndian

// compact holds a write lease meanwhile, so that nobody begins to count.
func compact(f *file.File, path string) error {
	if err := lease(f); err != nil {
		return err
	}
	defer f.Unlease()
	return replace(path, func(to *os.File) error {
		head, err := readHead(f)
		if err != nil {
			return err
		}
		if err := likeIt(f, to); err != nil {
			return err
		}
		return writeCompact(f, to, head)
	})
}

// readHead reads and checks the header of f, and returns its bytes.
func readHead(f *file.File) ([]byte, error) {
	if err := f.ReadHead(); err != nil {
		return nil, err
	}
	head := make([]byte, layout.HeaderSize)
	return head, f.ReadAt(head, 0)
}

// lease takes the write lease of f.
func lease(f *file.File) error {
	switch err := f.Lease(); err {
	case nil:
		return nil
	case syscall.EAGAIN:
		return ErrInUse
	default:
		return os.NewSyscallError("fcntl", err)
	}
}

// likeIt gives to the mode of f, whose place it will take, if that is our own.
func likeIt(f *file.File, to *os.File) error {
	fi, err := f.OS().Stat()
	if err != nil {
		return err
	}
	if tabledir.Owner(fi) != os.Geteuid() {
		return fmt.Errorf("it is another user's: %w", fs.ErrPermission)
	}
	return to.Chmod(fi.Mode().Perm())
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

// tight lays g out anew with room for what is in use only.
func tight(g *layout.Geometry, head []byte) layout.Geometry {
	p := layout.Geometry{Size: layout.HeaderSize, Counters: g.Counters, CountersCap: g.Counters}
	shrink := func(s layout.Section, count uint64) layout.Section {
		if s.Offset == 0 {
			return s // written by an older version
		}
		n := int(min(count, uint64(s.Capacity)))
		return p.Add(n, n, s.EntrySize)
	}
	p.Formers = shrink(g.Formers, le.Uint64(head[layout.HdrFormersHead:]))
	p.Missed = shrink(g.Missed, uint64(le.Uint32(head[layout.HdrMissedHead:])))
	p.Events = shrink(g.Events, le.Uint64(head[layout.HdrEventsHead:]))
	p.Fired = shrink(g.Fired, uint64(g.Counters))
	p.Objects = shrink(g.Objects, uint64(g.Objects.Count))
	p.Functions = shrink(g.Functions, uint64(g.Functions.Count))
	p.Aliases = shrink(g.Aliases, uint64(g.Aliases.Count))
	p.Strings = shrink(g.Strings, uint64(g.Strings.Count))
	p.Blocks, p.BlockCounters = shrink(g.Blocks, uint64(g.Blocks.Count)), g.BlockCounters
	p.Ways = shrink(g.Ways, uint64(g.Ways.Count))
	p.Loops = shrink(g.Loops, uint64(g.Loops.Count))
	p.Folded = shrink(g.Folded, uint64(g.Folded.Count))
	p.Sites = shrink(g.Sites, uint64(g.Sites.Count))
	rows := min(le.Uint32(head[layout.HdrRowsUsed:]), g.Rows.Capacity)
	if g.Baselines.Capacity > 0 {
		size := layout.RoundUp(layout.BlCounts + 8*(uint64(p.CountersCap)+uint64(rows)))
		p.Baselines = p.Add(keptBaselines, keptBaselines, uint32(size))
	}
	p.Rows = p.Add(int(rows), int(rows), uint32(layout.RoundUp(layout.RowCounters+8*uint64(p.CountersCap))))
	return p
}

// writeCompact writes the table with that header to an empty file, in the order
// of the file: notes of former owners and the baseline come before the rows, so
// that no count is smaller than in those. The header comes last.
func writeCompact(t *file.File, to *os.File, head []byte) error {
	p := tight(&t.Geometry, head)
	if err := moveLedger(t, to, &p); err != nil {
		return err
	}
	if err := moveBaseline(t, to, head, &p); err != nil {
		return err
	}
	if err := moveRows(t, to, &p); err != nil {
		return err
	}
	layout.EncodeGeometry(head, &p)
	return writeAt(to, head, 0)
}

// moveLedger gives the file its size and copies all but baselines and rows.
func moveLedger(t *file.File, to *os.File, p *layout.Geometry) error {
	g := &t.Geometry
	if err := to.Truncate(int64(p.Size)); err != nil {
		return tabledir.RoomHint(to.Name(), err)
	}
	for _, s := range [][2]layout.Section{
		{g.Formers, p.Formers}, {g.Missed, p.Missed}, {g.Events, p.Events}, {g.Fired, p.Fired},
		{g.Objects, p.Objects}, {g.Functions, p.Functions}, {g.Aliases, p.Aliases}, {g.Strings, p.Strings},
		{g.Blocks, p.Blocks}, {g.Ways, p.Ways}, {g.Loops, p.Loops}, {g.Sites, p.Sites}, {g.Folded, p.Folded},
	} {
		if err := move(t, to, s[0], s[1].Offset, uint64(s[1].Capacity)); err != nil {
			return err
		}
	}
	return nil
}

func writeAt(to *os.File, b []byte, at uint64) error {
	if _, err := to.WriteAt(b, int64(at)); err != nil {
		return tabledir.RoomHint(to.Name(), err)
	}
	return nil
}

// move copies the first count entries of s to that offset, but for holes.
func move(t *file.File, to *os.File, s layout.Section, offset, count uint64) error {
	size := uint64(s.EntrySize)
	return t.EachData(s, count, func(first uint64, b []byte) error {
		return writeAt(to, b, offset+first*size)
	})
}

// moveBaseline copies the baseline in force and makes it the first in head.
func moveBaseline(t *file.File, to *os.File, head []byte, p *layout.Geometry) error {
	word := le.Uint64(head[layout.HdrBaseline:])
	if t.Geometry.Baselines.Capacity == 0 || word == 0 {
		le.PutUint32(head[layout.HdrBaselinesTaken:], 0)
		return nil
	}
	number := layout.BaselineIn(word)
	if number >= t.Geometry.Baselines.Capacity {
		return layout.Corrupt("baseline %d of %d", number, t.Geometry.Baselines.Capacity)
	}
	le.PutUint64(head[layout.HdrBaseline:], word&^0xff|1)
	le.PutUint32(head[layout.HdrBaselinesTaken:], 1)
	from := t.Geometry.Baselines.Offset + uint64(number)*uint64(t.Geometry.Baselines.EntrySize)
	counters, rows := t.BaselineParts(from)
	newCounters, newRows := p.BaselineParts(p.Baselines.Offset)
	return errors.Join(
		move(t, to, layout.Section{Offset: from, EntrySize: layout.BlCounts}, p.Baselines.Offset, 1),
		move(t, to, counters, newCounters.Offset, uint64(p.Counters)),
		move(t, to, rows, newRows.Offset, uint64(p.Rows.Capacity)))
}

// moveRows copies the pages of rows that hold counts: room that was taken for a
// row, and zeros that somebody has read, are data for some file systems.
func moveRows(t *file.File, to *os.File, p *layout.Geometry) error {
	perRow, stride := uint64(t.Geometry.Rows.EntrySize)/layout.PageSize, uint64(p.Rows.EntrySize)
	pages := layout.Section{Offset: t.Geometry.Rows.Offset, EntrySize: layout.PageSize}
	return t.EachData(pages, uint64(p.Rows.Capacity)*perRow, func(page uint64, b []byte) error {
		for n := uint64(1); len(b) > 0; b, page = b[n*layout.PageSize:], page+n {
			n = 1
			row, at := page/perRow, page%perRow*layout.PageSize
			if at >= stride || bytes.Equal(b[:layout.PageSize], zeros[:]) {
				continue
			}
			for end := (n + 1) * layout.PageSize; at+end <= stride && end <= uint64(len(b)) && !bytes.Equal(b[end-layout.PageSize:end], zeros[:]); end += layout.PageSize {
				n++
			}
			if err := writeAt(to, b[:n*layout.PageSize], p.Rows.Offset+row*stride+at); err != nil {
				return err
			}
		}
		return nil
	})
}

var zeros [layout.PageSize]byte
