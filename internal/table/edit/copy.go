package edit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// errMoving says that a table was changed in the middle again and again.
var errMoving = errors.New("libraries are being loaded, or counts reset, again and again")

// Copy writes what the table at path holds at this moment to the file named to,
// which is there only when it is whole; one that is there is replaced. The
// program takes no part. The copy is a table like any other, with the time at
// which it was made; holes stay holes, and room for more is left out (see Compact).
func Copy(path, to string) error {
	from, err := file.Open(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer from.Close()
	err = replace(to, func(f *os.File) error { return copyWhole(from, f) })
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// copyWhole copies until nothing but counts has changed meanwhile.
func copyWhole(t *file.File, to *os.File) error {
	const tries = 50
	for try := 1; try <= tries; try++ {
		before, _ := t.U32(layout.HdrGeneration) // before anything else: the header is not read in one moment
		head, err := readHead(t)
		if err != nil {
			return err
		}
		if err := to.Truncate(0); err != nil {
			return err
		}
		if err := writeCompact(t, to, copiedHeader(head)); err != nil {
			return err
		}
		generation, err := t.U32(layout.HdrGeneration)
		if err != nil {
			return err
		}
		baseline, err := t.U64(layout.HdrBaseline)
		if err != nil {
			return err
		}
		// One that stays odd has an adder that died halfway. What it had counted in
		// is complete all the same.
		still := generation%2 == 0 || try == tries
		if still && generation == before && baseline == le.Uint64(head[layout.HdrBaseline:]) {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return errMoving
}

// copiedHeader makes head that of a copy: nobody serves it.
func copiedHeader(head []byte) []byte {
	head = bytes.Clone(head)
	le.PutUint64(head[layout.HdrSnapshot:], uint64(time.Now().UnixNano()))
	clear(head[layout.HdrPauseLock:layout.HdrReserveUsed]) // nor adds to it
	le.PutUint32(head[layout.HdrAppender:], 0)
	return head
}
