package place

import (
	"testing"

	"github.com/dynprof/dynprof/internal/procmaps"
)

// TestTrial: places are free, in reach, and never given twice.
func TestTrial(t *testing.T) {
	taken := []Span{{0x10000000, 0x7f0000000000}, {0x7f0000300000, 0x7f0001000000}}
	hold := func(at, size uint64) bool {
		for _, s := range taken {
			if at < s.High && s.Low < at+size {
				return false
			}
		}
		taken = append(taken, Span{at, at + size})
		return true
	}
	trial := &Trial{Lowest: 0x1000, Hold: hold}
	object := Span{0x7f0000300000, 0x7f0000400000}
	const size = 0x100000
	below := 0
	for range 10 {
		at, ok := trial.Place(object, size-1)
		switch {
		case !ok:
			t.Fatal("there is room above")
		case at%pageSize != 0 || at+size > object.Low+reach || at < object.High-reach:
			t.Errorf("%#x is out of reach", at)
		case at < object.Low:
			below++
		}
	}
	if below == 0 {
		t.Error("none is below")
	}
	held := &Held{Span: Span{0x7f0000400000, 0x7f0000700000}, Else: *trial}
	for i, want := range []uint64{0x7f0000600000, 0x7f0000500000, 0x7f0000400000} {
		if at, ok := held.Place(object, size); !ok || at != want {
			t.Errorf("place %d of what is held: %#x, %v", i, at, ok)
		}
	}
	if at, ok := held.Place(object, size); !ok || at < 0x7f0000700000 && at+size > 0x7f0000400000 {
		t.Errorf("behind the last of what is held: %#x, %v", at, ok)
	}
	full := &Trial{Lowest: 0x1000, Hold: func(uint64, uint64) bool { return false }}
	for _, s := range []Span{object, {0x400000, 0x500000}, {addressEnd - 0x2000, addressEnd - 0x1000}} {
		if at, ok := full.Place(s, size); ok {
			t.Errorf("%#x is not free", at)
		}
	}
	tries := 0
	late := &Trial{
		Lowest: 0x1000,
		Known: func() (*Space, error) {
			return NewSpace([]procmaps.Mapping{{Start: 0x1000, End: 0x7f0000800000}, {Start: 0x7f0000803000, End: addressEnd}}, 0x1000, Growth{}), nil
		},
	}
	late.Hold = func(at, size uint64) bool {
		if at == 0x7f0000800000 && size == 0x3000 {
			tries++ // somebody else has it the first time
		}
		return tries > 1
	}
	if at, ok := late.Place(object, 0x3000); !ok || at != 0x7f0000800000 {
		t.Errorf("%#x, %v: where it is known to be free", at, ok)
	}
	if at, ok := (&Trial{Lowest: 0x10000, Hold: func(at, _ uint64) bool { return at >= 0x10000 }}).Place(Span{0x20000, 0x30000}, size); !ok || at < 0x30000 {
		t.Errorf("%#x, %v: below is no room", at, ok)
	}
}
