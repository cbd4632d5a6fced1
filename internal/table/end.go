package table

import (
	"fmt"
	"os"
	"syscall"
)

// MarkEnded notes in the table how its program ended. If no process has the
// table open or mapped any more, it also cuts the rows off that nobody used,
// so that a copy of the file is small.
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
	if _, err := f.WriteAt(le.AppendUint32(nil, e.Kind), HdrEnded); err != nil {
		return err
	}
	return t.trim(f)
}

// trim ends the file after the last row in use. It holds a write lease
// meanwhile: a store of the program behind the new end would raise SIGBUS in
// it, so nobody may have the file mapped, nor map it before the cut.
func (t *Table) trim(f *os.File) error {
	if lease(f, syscall.F_WRLCK) != nil {
		return nil // in use, or not known: the file stays as it is
	}
	defer lease(f, syscall.F_UNLCK)
	used, err := t.u32(HdrRowsUsed)
	if err != nil {
		return err
	}
	rows := t.Geometry.Rows
	rows.Capacity = min(used, rows.Capacity)
	rows.Count = rows.Capacity
	if rows.End() >= t.Geometry.Size {
		return nil
	}
	// The header shrinks first: a file longer than it says is valid.
	b := make([]byte, SectionSize)
	encodeSection(b, rows)
	if _, err := f.WriteAt(b, HdrRows); err != nil {
		return err
	}
	if _, err := f.WriteAt(le.AppendUint64(nil, rows.End()), HdrFileSize); err != nil {
		return err
	}
	return f.Truncate(int64(rows.End()))
}
