package emit

import (
	"encoding/binary"
	"testing"
)

// TestOriginOf: each address of an arena stands for an instruction of the program's.
func TestOriginOf(t *testing.T) {
	r := ArenaRef{At: 0x10000, Size: 0x1000, Cold: 0x10800}
	var records []byte
	for i := range 2 {
		le := binary.LittleEndian
		records = le.AppendUint32(records, uint32(0x100*(i+1))) // at
		records = le.AppendUint32(records, uint32(0x5000+0x100*i))
		records = le.AppendUint32(records, uint32(4*i)) // lengths
		records = append(records, 2, 0, 9, 0)
	}
	lengths := []byte{4, 7, 5 | originCall, 21, 3, 3, 2, 6}
	for _, row := range []struct {
		at, want uint64
		ok       bool
	}{
		{0xffff, 0, false}, {0x10000, 0, false}, {0x100ff, 0, false},
		{0x10100, 0x15000, true}, {0x10108, 0x15000, true}, // the count
		{0x10109, 0x15000, true}, {0x1010f, 0x15000, true}, {0x10110, 0x15004, true}, {0x10124, 0x15004, true},
		{0x10130, 0x15004, true}, {0x101ff, 0x15004, true}, // the jump back
		{0x10200, 0x15100, true}, {0x1020b, 0x15100, true}, {0x1020c, 0x15103, true}, {0x107ff, 0x15103, true},
		{0x10800, 0, false},
	} {
		if got, ok := r.OriginOf(records, lengths, row.at); got != row.want || ok != row.ok {
			t.Errorf("%#x: %#x, %v; want %#x, %v", row.at, got, ok, row.want, row.ok)
		}
	}
	if _, ok := r.OriginOf(records, lengths[:2], 0x10100); ok {
		t.Error("lengths that are not there")
	}
	if _, ok := r.OriginOf(nil, nil, 0x10100); ok {
		t.Error("no records")
	}
}
