package bodyhash

import (
	"math"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
)

// object is one with this code at an address, and functions in it of this size.
func object(at uint64, code []byte) *objcode.Object {
	return &objcode.Object{
		Image: &objcode.Image{Segments: []objcode.Segment{{Addr: at, Code: code}}},
		Data:  &objcode.Data{Fixed: true}, Links: &objcode.Links{}, Low: 0x400000, High: 0x500000,
	}
}

// TestMasked: where a linker puts things makes no difference, all else does.
func TestMasked(t *testing.T) {
	const here = 0x401000
	of := func(at uint64, code []byte) Hash {
		code = append(code, 0xc3)
		return Of(object(at, code), []Function{{at, uint32(len(code))}})[0].Plain
	}
	for _, row := range []struct {
		name string
		a, b []byte
		same bool
	}{
		{"call", []byte{0xe8, 1, 2, 0, 0}, []byte{0xe8, 9, 9, 0, 0}, true},
		{"call of itself", []byte{0xe8, 0xfb, 0xff, 0xff, 0xff}, []byte{0xe8, 9, 9, 0, 0}, false},
		{"jmp elsewhere", []byte{0xe9, 1, 2, 0, 0}, []byte{0xe9, 9, 9, 0, 0}, true},
		{"jcc elsewhere", []byte{0x0f, 0x84, 1, 2, 0, 0}, []byte{0x0f, 0x84, 9, 9, 0, 0}, true},
		{"another jcc", []byte{0x0f, 0x84, 1, 2, 0, 0}, []byte{0x0f, 0x85, 1, 2, 0, 0}, false},
		{"je inside", []byte{0x74, 0, 0x90, 0x90}, []byte{0x74, 1, 0x90, 0x90}, false},
		{"lea (%rip)", []byte{0x48, 0x8d, 0x05, 0, 1, 0, 0}, []byte{0x48, 0x8d, 0x05, 9, 9, 0, 0}, true},
		{"add $,(%rip)", []byte{0x83, 0x05, 0, 1, 0, 0, 5}, []byte{0x83, 0x05, 9, 9, 0, 0, 6}, false},
		{"mov $address", []byte{0xbf, 0x10, 0x20, 0x40, 0}, []byte{0xbf, 0x30, 0x40, 0x40, 0}, true},
		{"mov $number", []byte{0xbf, 0x10, 0x20, 0, 0}, []byte{0xbf, 0x30, 0x40, 0, 0}, false},
		{"mov address(,%rax,8)", []byte{0x48, 0x8b, 4, 0xc5, 0, 0x30, 0x40, 0}, []byte{0x48, 0x8b, 4, 0xc5, 8, 0x38, 0x40, 0}, true},
		{"mov 8(%rbp)", []byte{0x48, 0x8b, 0x45, 8}, []byte{0x48, 0x8b, 0x45, 16}, false},
		{"movabs $address", []byte{0x48, 0xb8, 0, 0x40, 0x40, 0, 0, 0, 0, 0}, []byte{0x48, 0xb8, 8, 0x48, 0x40, 0, 0, 0, 0, 0}, true},
		{"movabs $number", []byte{0x48, 0xb8, 0, 0x40, 0x40, 0, 1, 0, 0, 0}, []byte{0x48, 0xb8, 8, 0x48, 0x40, 0, 1, 0, 0, 0}, false},
		{"no instruction", []byte{0x06, 1}, []byte{0x06, 2}, false},
	} {
		if same := of(here, row.a) == of(here, row.b); same != row.same {
			t.Errorf("%s: the same is %v", row.name, same)
		}
		if row.name != "mov $address" && of(here, row.a) != of(here+0x100, row.a) {
			t.Errorf("%s: another one elsewhere", row.name)
		}
	}
	if b := Of(object(here, []byte{0xc3}), []Function{{0x1, 5}}); b[0].Known() {
		t.Error("code where there is none")
	}
}

func TestLikeness(t *testing.T) {
	for _, row := range []struct {
		a, b []uint16
		want float64
	}{{nil, nil, 0}, {[]uint16{1, 2}, []uint16{1, 2}, 1}, {[]uint16{1, 1, 2}, []uint16{1, 2, 2}, 0.5}, {[]uint16{1}, []uint16{2}, 0}} {
		if got := Likeness(&Body{Shape: row.a}, &Body{Shape: row.b}); math.Abs(got-row.want) > 1e-9 {
			t.Errorf("%v %v: %g", row.a, row.b, got)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add([]byte{0xe8, 0, 0, 0, 0, 0xc3}, uint64(0x401000), uint32(6))
	f.Add([]byte{0x48, 0xb8, 1, 2}, uint64(math.MaxUint64-1), uint32(9))
	f.Fuzz(func(t *testing.T, code []byte, at uint64, size uint32) {
		functions := []Function{{at, size}, {at + 1, size}, {at, math.MaxUint32}}
		bodies := Of(object(at, code), functions)
		if again := Of(object(at, code), functions); again[0].Plain != bodies[0].Plain || again[0].Linked != bodies[0].Linked {
			t.Error("not the same twice")
		}
	})
}
