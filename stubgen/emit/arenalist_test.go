package emit

import (
	"slices"
	"testing"
)

// TestArenaList: a list is read as it was written; what is none, is cut, or is of
// another version is none.
func TestArenaList(t *testing.T) {
	list := []ArenaRef{{1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14}}
	b := AppendArenaList(nil, list)
	if n := ArenaListLen(b); n != len(b) || n != ArenaListSize(2) {
		t.Errorf("%d bytes of %d", n, len(b))
	}
	if got := ReadArenaList(b); !slices.Equal(got, list) {
		t.Errorf("%v, not %v", got, list)
	}
	for _, bad := range [][]byte{nil, b[:20], append([]byte("dynprof arenas\x00\x01"), b[16:]...), append(slices.Clone(b[:16]), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)} {
		if n := ArenaListLen(bad); n != 0 {
			t.Errorf("%q is a list of %d bytes", bad, n)
		}
	}
}

// TestEmitCommon: the arena's entries hold an aligned address, and say so if there is no
// room.
func TestEmitCommon(t *testing.T) {
	buf := make([]byte, CommonSize)
	if err := EmitCommon(buf, 0x1000, 0x1122334455667788); err != nil {
		t.Fatal(err)
	}
	if want := []byte{0xff, 0x25, 2, 0, 0, 0, 0xcc, 0xcc, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}; !slices.Equal(buf, want) {
		t.Errorf("% x, not % x", buf, want)
	}
	for n := range CommonSize {
		if err := EmitCommon(make([]byte, n), 0x1000, 1); err == nil {
			t.Errorf("%d bytes are enough", n)
		}
	}
}
