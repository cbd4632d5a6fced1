package handover

import (
	"encoding/binary"
	"testing"
)

func TestSizes(t *testing.T) {
	for name, v := range map[string]struct {
		of   any
		size int
	}{
		"Place": {Place{}, PlaceSize}, "Parked": {Parked{}, ParkedSize}, "Attach": {Attach{}, AttachSize},
		"Range": {Range{}, RangeSize}, "Object": {Object{}, ObjectSize}, "Asks": {Asks{}, AsksSize}, "Ctl": {Ctl{}, CtlSize}, "Arena": {Arena{}, ArenaSize}, "Text": {Text{}, TextSize},
	} {
		if n := binary.Size(v.of); n != v.size {
			t.Errorf("%s has %d bytes, not %d", name, n, v.size)
		}
	}
}

func TestBytes(t *testing.T) {
	in, out := Parked{From: Place{RIP: 1, RBX: 2}, Left: 3}, Parked{}
	b := Bytes(&in)
	if len(b) != ParkedSize || b[0] != 1 || b[4*8] != 2 || b[ParkedSize-8] != 3 {
		t.Errorf("% x", b)
	}
	if err := Read(b, &out); err != nil || in != out {
		t.Errorf("%v, %v", out, err)
	}
	if err := Read(b[:8], &out); err == nil {
		t.Error("a part of it is read")
	}
}
