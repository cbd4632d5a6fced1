package table

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// errMoving says that a table was changed in the middle again and again.
var errMoving = errors.New("libraries are being loaded, or counts reset, again and again")

// Copy writes what the table at path holds at this moment to the file named to,
// which is there only when it is whole; one that is there is replaced. The
// program takes no part. The copy is a table like any other, with the time at
// which it was made; holes stay holes, unused rows are left out.
func Copy(path, to string) error {
	from, size, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.CreateTemp(filepath.Dir(to), ".dynprof-*") // mode 0600
	if err != nil {
		return err
	}
	defer f.Close()
	if err = copyWhole(from, size, f); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	} else if err = f.Close(); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// copyWhole copies until nothing but counts has changed meanwhile.
func copyWhole(from *os.File, size int64, to *os.File) error {
	const tries = 50
	for range tries {
		t := &Table{r: from, size: size}
		if err := t.readHead(); err != nil {
			return err
		}
		head := make([]byte, HeaderSize)
		if _, err := readAt(from, head, 0); err != nil {
			return err
		}
		if err := to.Truncate(0); err != nil {
			return err
		}
		if err := t.copyData(to, copiedHeader(head, t.Geometry)); err != nil {
			return err
		}
		generation, err := t.u32(HdrGeneration)
		if err != nil {
			return err
		}
		baseline, err := t.u64(HdrBaseline)
		if err != nil {
			return err
		}
		if generation%2 == 0 && generation == le.Uint32(head[HdrGeneration:]) && generation == t.Generation &&
			baseline == le.Uint64(head[HdrBaseline:]) {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return errMoving
}

// copiedHeader is the header of a copy: it has only the rows that were used.
func copiedHeader(head []byte, g Geometry) []byte {
	g.Rows.Capacity = min(le.Uint32(head[HdrRowsUsed:]), g.Rows.Capacity)
	g.Rows.Count = g.Rows.Capacity
	encodeSection(head[HdrRows:], g.Rows)
	le.PutUint64(head[HdrFileSize:], g.Rows.End())
	le.PutUint64(head[HdrSnapshot:], uint64(time.Now().UnixNano()))
	clear(head[HdrPauseLock:HdrReserveUsed]) // nobody serves a copy, nor adds to it
	le.PutUint32(head[HdrAppender:], 0)
	taken := uint32(0)
	if word := le.Uint64(head[HdrBaseline:]); word != 0 {
		taken = 1 << baselineIn(word)
	}
	le.PutUint32(head[HdrBaselinesTaken:], taken)
	return head
}

// copyData copies in the order of the file: notes of former owners and the
// baseline come before the rows, so that no count is smaller than in those.
func (t *Table) copyData(to *os.File, head []byte) error {
	end := le.Uint64(head[HdrFileSize:])
	body := Section{Offset: HeaderSize, EntrySize: PageSize}
	err := t.eachData(body, (end-HeaderSize)/PageSize, func(page uint64, b []byte) error {
		_, err := to.WriteAt(b, int64(HeaderSize+page*PageSize))
		return err
	})
	if err != nil {
		return roomHint(to.Name(), err)
	}
	if err := to.Truncate(int64(end)); err != nil {
		return err
	}
	_, err = to.WriteAt(head, 0)
	return err
}
