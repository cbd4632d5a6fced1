package edit

import (
	"errors"
	"os"
	"syscall"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Why a table's counts cannot be gone on with.
var (
	ErrOther    = errors.New("it is not of this process")
	errCounted  = errors.New("a process counts into it")
	errNoCounts = errors.New("it was reset, or has events, or more than calls of functions")
	errFunction = errors.New("other functions are counted now")
)

// carryRow is the row that has them. Nobody takes it: the first one is the first thread's.
const carryRow = 1

// Carry has a table that nobody counts into yet begin with the counts of an earlier one, of the
// same process and the same functions. They are those of threads that nobody tells apart.
func Carry(from, to string) error {
	old, err := file.OpenHead(from, os.O_RDONLY|syscall.O_NOFOLLOW)
	if err != nil {
		return errors.Join(ErrOther, err)
	}
	defer old.Close()
	f, err := file.Open(to, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, layout.HeaderSize)
	if err := f.ReadHead(); err != nil && !errors.Is(err, layout.ErrBuilding) {
		return err
	}
	if err := f.ReadAt(head, 0); err != nil {
		return err
	}
	fi, err := f.OS().Stat()
	if err == nil {
		f.Geometry, err = layout.DecodeGeometry(head, fi.Size())
	}
	if err != nil {
		return err
	}
	if err := mayCarry(old, f); err != nil {
		return err
	}
	calls, err := (&table.Table{File: old}).SumCounters(0, old.Counters)
	if err != nil {
		return err
	}
	return writeCarried(f, calls)
}

func mayCarry(old, f *file.File) error {
	a, b := old.Identity, f.Identity
	if a.BootID != b.BootID || a.PidNS != b.PidNS || a.Pid != b.Pid || a.StartTicks != b.StartTicks || !old.Header.Snapshot.IsZero() {
		return ErrOther
	}
	head, err := readHead(old)
	if err != nil {
		return err
	}
	if le.Uint64(head[layout.HdrBaseline:]) != 0 || le.Uint64(head[layout.HdrEventsHead:]) != 0 || old.Geometry.Blocks.Offset != 0 || old.Geometry.Sites.Offset != 0 {
		return errNoCounts
	}
	if alive.CountsInto(old) {
		return errCounted
	}
	return sameFunctions(old, f)
}

// sameFunctions is an error if a counter of one table is not that of the same function in the
// other. In a process a function is known by where it is.
func sameFunctions(a, b *file.File) error {
	same := func(s, t layout.Section, equal func(a, b []byte) (bool, error)) error {
		if s.Count != t.Count || s.EntrySize != t.EntrySize {
			return errFunction
		}
		all := [2][]byte{}
		for i, f := range []*file.File{a, b} {
			all[i] = make([]byte, uint64(s.Count)*uint64(s.EntrySize))
			if err := f.ReadAt(all[i], int64([]layout.Section{s, t}[i].Offset)); err != nil {
				return err
			}
		}
		size := int(s.EntrySize)
		for at := 0; at < len(all[0]); at += size {
			if is, err := equal(all[0][at:at+size], all[1][at:at+size]); err != nil || !is {
				return errors.Join(err, errFunction)
			}
		}
		return nil
	}
	if a.Counters != b.Counters {
		return errFunction
	}
	err := same(a.Geometry.Objects, b.Geometry.Objects, func(x, y []byte) (bool, error) {
		o, p := layout.DecodeObject(x), layout.DecodeObject(y)
		path, err1 := a.String(le.Uint32(x[layout.ObjPath:]))
		other, err2 := b.String(le.Uint32(y[layout.ObjPath:]))
		return path == other && o.Bias == p.Bias && o.Low == p.Low && o.High == p.High, errors.Join(err1, err2)
	})
	if err != nil {
		return err
	}
	return same(a.Geometry.Functions, b.Geometry.Functions, func(x, y []byte) (bool, error) {
		f, g := layout.DecodeFunction(x), layout.DecodeFunction(y)
		return f.Object == g.Object && f.Address == g.Address && f.Counter == g.Counter, nil
	})
}

func writeCarried(f *file.File, calls []uint64) error {
	g := &f.Geometry
	if g.Rows.Capacity <= carryRow {
		return errNoCounts
	}
	rows := g.Rows
	rows.Offset += carryRow * uint64(rows.EntrySize)
	row := layout.NewSink(f.OS(), rows)
	b := row.Entry(layout.RowCounters)
	le.PutUint32(b[layout.RowState:], layout.RowFree)
	le.PutUint32(b[layout.RowIndex:], carryRow)
	le.PutUint64(b[layout.RowBase:], layout.ManyOwners)
	for _, n := range calls {
		le.PutUint64(row.Entry(8), n)
	}
	if err := row.Flush(); err != nil {
		return err
	}
	return writeAt(f.OS(), le.AppendUint32(nil, carryRow+1), layout.HdrRowsUsed)
}
