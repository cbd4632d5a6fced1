package edit

import (
	"os"
	"syscall"

	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// MarkEnded notes in the table how its program ended.
func MarkEnded(path string, e layout.Ended) error {
	f, err := file.OpenHead(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	if t := &e.Transfers; *t != (layout.Transfers{}) {
		var b []byte
		for _, n := range []uint64{t.Read, t.ReadCalls, t.Written, t.WriteCalls} {
			b = le.AppendUint64(b, n)
		}
		if _, err := f.OS().WriteAt(b, layout.HdrReadBytes); err != nil {
			return err
		}
	}
	// The kind comes last: a reader that sees it sees the others.
	b := le.AppendUint64(le.AppendUint32(nil, e.Code), uint64(e.Time.UnixNano()))
	if _, err := f.OS().WriteAt(b, layout.HdrEndedCode); err != nil {
		return err
	}
	_, err = f.OS().WriteAt(le.AppendUint32(nil, e.Kind), layout.HdrEnded)
	return err
}
