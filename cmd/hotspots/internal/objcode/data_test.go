package objcode

import (
	"encoding/binary"
	"maps"
	"strings"
	"testing"
)

// TestText: a string is told by what it holds, and ends where the file does at the latest.
func TestText(t *testing.T) {
	const at = 0x1000
	for content, want := range map[string]string{
		"text\x00more": "text", "a tab\t and a line\n\x00": "a tab\t and a line\n", "näher\x00": "näher",
		"": "", "\x00": "", "x\x00": "", "no end": "", "bell\a\x00": "", "\xff\xfe\x00": "", "\x1b[1m\x00": "",
		strings.Repeat("a", longestString-1) + "\x00": strings.Repeat("a", longestString-1), strings.Repeat("a", longestString) + "\x00": "",
	} {
		d := &Data{segments: []Segment{{Addr: at, Code: []byte(content)}}}
		if got, ok := d.Text(at); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", content, got, ok)
		}
		if _, ok := d.Text(at + uint64(len(content))); ok {
			t.Errorf("%q: a string behind the end", content)
		}
	}
}

// TestAll: of an executable that lies where it was linked words are pointers, but for those
// with the headers; of another only what relocations say.
func TestAll(t *testing.T) {
	word := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	d := &Data{
		segments: []Segment{{Addr: 0x400000, Code: word(0x401000)}, {Addr: 0x402000, Code: append(append(word(0x401000), word(0)...), word(0x401010)...), Offset: 0x2000}},
		Pointers: map[uint64]uint64{0x402010: 0x401020},
	}
	if got := maps.Collect(d.All()); !maps.Equal(got, d.Pointers) {
		t.Errorf("%#x", got)
	}
	d.Fixed = true
	if got := maps.Collect(d.All()); !maps.Equal(got, map[uint64]uint64{0x402000: 0x401000, 0x402010: 0x401020}) {
		t.Errorf("%#x", got)
	}
	for range d.All() { // may be left early
		break
	}
	if to, ok := d.Pointer(0x402000); !ok || to != 0x401000 {
		t.Errorf("%#x, %v", to, ok)
	}
	if _, ok := d.Pointer(0x402008); ok {
		t.Error("0 is a pointer")
	}
}
