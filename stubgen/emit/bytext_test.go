package emit

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestByTextOfMany: the order is that of a sort by comparison, on both sides of the arena's start.
func TestByTextOfMany(t *testing.T) {
	if got := ByText(nil); len(got) != 0 {
		t.Errorf("%d of none", len(got))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, spread := range []int64{1, 300, 1 << 30} {
		records := make([]byte, 5000*OriginSize)
		for at := 0; at < len(records); at += OriginSize {
			binary.LittleEndian.PutUint32(records[at+originFrom:], uint32(int32(r.Int64N(2*spread)-spread)))
			records[at+originFlags] = byte(r.Uint32())
		}
		from := func(i uint32) int32 { return int32(binary.LittleEndian.Uint32(records[i*OriginSize+originFrom:])) }
		kind := func(i uint32) byte { return records[i*OriginSize+originFlags] & (originWay | originCopy) }
		want := make([]uint32, len(records)/OriginSize)
		for i := range want {
			want[i] = uint32(i)
		}
		slices.SortFunc(want, func(i, j uint32) int {
			return cmp.Or(cmp.Compare(from(i), from(j)), cmp.Compare(kind(j), kind(i)), cmp.Compare(i, j))
		})
		if got := ByText(records); !slices.Equal(got, want) {
			t.Errorf("up to %d bytes away they are in another order", spread)
		}
	}
}
