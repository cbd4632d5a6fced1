package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

var le = binary.LittleEndian

// Table is an open count table. Header, Objects and Functions are as they
// were when it was opened; Snapshot and Events read anew each time.
type Table struct {
	*file.File
	Objects   []layout.Object
	Functions []layout.Function

	byCounter []uint32 // indices of Functions, by rising counter
	most      *most    // of OpenMost; nil if all functions were read
}

// Open opens the table in the named file. Close it after use.
func Open(path string) (*Table, error) {
	f, err := file.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	t, err := Read(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// NewReader reads a table of size bytes, as Read does. r may grow and its
// counters may move meanwhile. Where r is an *os.File the holes of a sparse file
// are skipped.
func NewReader(r io.ReaderAt, size int64) (*Table, error) { return Read(file.New(r, size)) }

// Read reads the table in f. It believes nothing unchecked: any bytes give a
// table or an error, and it takes memory in proportion to what the file holds,
// not to what it claims.
func Read(f *file.File) (*Table, error) {
	const (
		tries  = 5   // of one whose adder has died halfway
		ofBusy = 500 // of one that somebody adds to all the time
	)
	last, died := uint32(0), 0
	for try := 1; ; try++ {
		t := &Table{File: f}
		before, _ := t.U32(layout.HdrGeneration) // before anything else: the header is not read in one moment
		err := t.read()
		after, genErr := t.U32(layout.HdrGeneration)
		if died++; before != after || before != last {
			died = 1
		}
		last = after
		if before%2 == 0 && before == after && genErr == nil || genErr != nil && try == tries || died == tries || try == ofBusy {
			// What an adder that died halfway had counted in is complete all the same:
			// entries precede counts.
			if err != nil {
				return nil, err
			}
			return t, nil
		}
		if errors.Is(err, layout.ErrNotTable) || errors.Is(err, layout.ErrVersion) {
			return nil, err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Nonces are those of the processes whose calls the table has: its own, and those of tables that
// were folded into it. Tables that share one cannot be added up.
func (t *Table) Nonces() ([][16]byte, error) {
	folded, err := t.Folded()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Path(), err)
	}
	all := [][16]byte{t.Nonce}
	for i := range folded {
		if n := folded[i].Nonce; n != t.Nonce {
			all = append(all, n)
		}
	}
	return all, nil
}

func (t *Table) read() error {
	if err := t.ReadHead(); err != nil {
		return err
	}
	return t.readLedger()
}
