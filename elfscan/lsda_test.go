package elfscan

import (
	"slices"
	"testing"
)

// TestCallSites: which landing pads a patch could hit.
func TestCallSites(t *testing.T) {
	ref := lsdaRef{lsda: 0x9000, addr: 0x1000, end: 0x1100}
	for _, row := range []struct {
		name string
		lsda []byte
		want []uint64
	}{
		{"near the start, none, in the middle", []byte{peOmit, peOmit, peUleb, 13, 0, 4, 1, 0, 4, 4, 0, 0, 8, 4, 0x80, 1, 0}, []uint64{0x1001}},
		{"with a type table", []byte{peOmit, 0x9b, 40, peUleb, 4, 0, 4, 8, 1}, []uint64{0x1008}},
		{"behind the window", []byte{peOmit, peOmit, peUleb, 4, 0, 4, 9, 0}, nil},
		{"in another part, by its base", []byte{peUdata4, 0, 0x20, 0, 0, peOmit, peUleb, 4, 0, 4, 6, 0}, []uint64{0x2006}},
		{"four-byte numbers", []byte{peOmit, peOmit, peUdata4, 13, 0, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0}, []uint64{0x1005}},
		{"cut", []byte{peOmit, peOmit, peUleb, 40, 0, 4, 1, 0}, nil},
		{"cut in a record", []byte{peOmit, peOmit, peUleb, 6, 0, 4, 1, 0, 4, 4}, []uint64{0x1001}},
		{"empty", nil, nil},
	} {
		if got := appendPads(nil, cursor{b: row.lsda, addr: ref.lsda}, ref); !slices.Equal(got, row.want) {
			t.Errorf("%s: %#x, want %#x", row.name, got, row.want)
		}
	}
}
