package table

import (
	"bytes"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Missed is an object that was loaded later and could not be planned.
type Missed struct {
	Path   string // as the dynamic linker has it; the end of a long one
	Reason ledger.Reason
	Times  uint32 // how often it was loaded so
}

// readMissed reads the objects that could not be planned. One that is being
// noted at the moment is left out.
func (t *Table) readMissed(s *Snapshot, head uint32) error {
	size := int(t.Geometry.Missed.EntrySize)
	return t.EachData(t.Geometry.Missed, uint64(min(head, t.Geometry.Missed.Capacity)), func(_ uint64, b []byte) error {
		for ; len(b) >= size; b = b[size:] {
			if reason := le.Uint32(b[layout.MsReason:]); reason != 0 && reason < 256 {
				path, _, _ := bytes.Cut(b[layout.MsPath:layout.MsPath+layout.MsPathSize], []byte{0})
				s.Missed = append(s.Missed, Missed{string(path), ledger.Reason(reason), le.Uint32(b[layout.MsTimes:])})
			}
		}
		return nil
	})
}
