package plancache

import (
	"bytes"
	"io"
)

// CheckFile compares what the plan takes for the bytes of its object with the file.
func (p *Plan) CheckFile(r io.ReaderAt) error {
	changes := p.Changes
	old := make([]byte, ChangeNew-ChangeOld)
	for _, t := range p.Texts {
		for range t.Changes {
			at, n := uint64(le.Uint32(changes[ChangeAt:])), int(changes[ChangeLen])
			if _, err := r.ReadAt(old[:n], int64(t.Offset+at)); err != nil {
				return err
			}
			if !bytes.Equal(old[:n], changes[ChangeOld:][:n]) {
				return corrupt("at %#x the file has % x", t.Start+at, old[:n])
			}
			changes = changes[ChangeEntrySize:]
		}
	}
	return nil
}
