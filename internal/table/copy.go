package table

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"
)

// errMoving says that a table was changed in the middle again and again.
var errMoving = errors.New("libraries are being loaded, or counts reset, again and again")

// Copy writes what the table at path holds at this moment to the file named to,
// which is there only when it is whole; one that is there is replaced. The
// program takes no part. The copy is a table like any other, with the time at
// which it was made; holes stay holes, and room for more is left out (see Compact).
func Copy(path, to string) error {
	from, size, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer from.Close()
	err = replace(to, func(f *os.File) error { return copyWhole(from, size, f) })
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
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
		if err := t.writeCompact(to, copiedHeader(head)); err != nil {
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

// copiedHeader makes head that of a copy: nobody serves it.
func copiedHeader(head []byte) []byte {
	head = bytes.Clone(head)
	le.PutUint64(head[HdrSnapshot:], uint64(time.Now().UnixNano()))
	clear(head[HdrPauseLock:HdrReserveUsed]) // nor adds to it
	le.PutUint32(head[HdrAppender:], 0)
	return head
}
