package table

import (
	"fmt"
	"os"
	"syscall"
)

// MarkEnded notes in the table how its program ended.
func MarkEnded(path string, e Ended) error {
	f, size, err := openRegular(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	t := &Table{r: f, size: size}
	if err := t.readHead(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// The kind comes last: a reader that sees it sees the others.
	b := le.AppendUint64(le.AppendUint32(nil, e.Code), uint64(e.Time.UnixNano()))
	if _, err := f.WriteAt(b, HdrEndedCode); err != nil {
		return err
	}
	_, err = f.WriteAt(le.AppendUint32(nil, e.Kind), HdrEnded)
	return err
}
