package plancache

import (
	"bytes"
	"io"
)

// CheckFile compares what the plan takes for the bytes of its object with the file.
func (p *Plan) CheckFile(r io.ReaderAt) error {
	changes, calls := p.Changes, p.Calls
	for _, t := range p.Texts {
		for range t.Changes {
			if err := t.has(r, le.Uint32(changes[ChangeAt:]), changes[ChangeOld:][:changes[ChangeLen]]); err != nil {
				return err
			}
			changes = changes[ChangeEntrySize:]
		}
		for range t.Calls {
			if err := t.has(r, le.Uint32(calls[CallAt:]), calls[CallOld:][:4]); err != nil {
				return err
			}
			calls = calls[CallEntrySize:]
		}
	}
	return nil
}

// has is whether the text's bytes at an offset are these.
func (t *Text) has(r io.ReaderAt, at uint32, want []byte) error {
	got := make([]byte, len(want))
	if _, err := r.ReadAt(got, int64(t.Offset+uint64(at))); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return corrupt("at %#x the file has % x, not % x", t.Start+uint64(at), got, want)
	}
	return nil
}
