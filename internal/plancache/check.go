package plancache

import (
	"bytes"
	"io"
)

// CheckFile compares what the plan takes for the bytes of its object with the file.
func (p *Plan) CheckFile(r io.ReaderAt) error {
	listed, patches, leds := p.Listed, p.Patches, p.Leds
	for _, t := range p.Texts {
		for range t.Listed {
			at, old := listedAt(listed), oldOf(listed, patches, leds)
			if err := t.has(r, at, old); err != nil {
				return err
			}
			listed = listed[ListedEntrySize:]
		}
		patches, leds = patches[t.Patches*PatchEntrySize:], leds[t.Leds*LedEntrySize:]
	}
	return nil
}

// oldOf is what the first of the changes of a text with these patches and functions has
// replaced.
func oldOf(listed, patches, leds []byte) []byte {
	at, of := listedAt(listed), le.Uint32(listed[listedOf:])
	if of&callBit != 0 {
		entry := le.Uint32(leds[of&^callBit*LedEntrySize+ledEntry:])
		return le.AppendUint32(nil, entry-at-callSize)
	}
	patch := patches[of*PatchEntrySize:]
	return patch[patchOld:][:patch[patchLen]]
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
