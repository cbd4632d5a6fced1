package plancache

import (
	"bytes"
	"io"
	"iter"
)

// Change is one of a text.
type Change struct {
	At       uint32 // offset from the text's start
	Call     bool   // it is of a displacement: the opcode is in front
	BySlot   bool   // and made only where the PLT leads to the function
	Old, New []byte // as many
}

// Changes yields the changes of all texts, in the order of their addresses. What is yielded
// is good until the next.
func (p *Plan) Changes() iter.Seq2[*Text, *Change] {
	return func(yield func(*Text, *Change) bool) {
		listed, patches, leds := p.Listed, p.Patches, p.Leds
		for i := range p.Texts {
			t := &p.Texts[i]
			var c Change
			for range t.Listed {
				c.read(listed, patches, leds)
				if !yield(t, &c) {
					return
				}
				listed = listed[ListedEntrySize:]
			}
			patches, leds = patches[t.Patches*PatchEntrySize:], leds[t.Leds*LedEntrySize:]
		}
	}
}

// read makes c the first of the changes of a text with these patches and functions.
func (c *Change) read(listed, patches, leds []byte) {
	at, of := listedAt(listed), le.Uint32(listed[listedOf:])
	c.At, c.Call, c.BySlot = at, of&callBit != 0, of&slotBit != 0
	if c.Call {
		led := leds[of&^(callBit|slotBit)*LedEntrySize:]
		c.Old = le.AppendUint32(c.Old[:0:0], le.Uint32(led[ledEntry:])-at-callSize)
		c.New = le.AppendUint32(c.New[:0:0], le.Uint32(led[ledStub:])-at-callSize)
		return
	}
	patch := patches[of*PatchEntrySize:]
	n := patch[patchLen]
	c.Old, c.New = patch[patchOld:][:n], patch[patchNew:][:n]
}

// CheckFile compares what the plan takes for the bytes of its object with the file.
func (p *Plan) CheckFile(r io.ReaderAt) error {
	for t, c := range p.Changes() {
		got := make([]byte, len(c.Old))
		if _, err := r.ReadAt(got, int64(t.Offset+uint64(c.At))); err != nil {
			return err
		}
		if !bytes.Equal(got, c.Old) {
			return corrupt("at %#x the file has % x, not % x", t.Start+uint64(c.At), got, c.Old)
		}
	}
	return nil
}
