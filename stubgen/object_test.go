package stubgen

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
)

// TestIndex: each entry is found by its address, and nothing else.
func TestIndex(t *testing.T) {
	o := &Object{}
	entries := map[uint64]int{}
	for i, addr := range []uint64{0x1000, 0x1001, 0x1400, 0x13_0000, 0x13_03ff, 0x13_0400, 0xffff_0000, 0x1_0000_1001} {
		o.Functions = append(o.Functions, elfscan.Function{Addr: addr, Size: 1})
		entries[addr] = i
	}
	delete(entries, 0x1_0000_1001) // 4 GB from the first: no call reaches it
	x := NewIndex(o)
	for addr := range entries {
		for _, at := range []uint64{addr - 1, addr, addr + 1, addr + 0x400} {
			want, ok := entries[at]
			if !ok {
				want = -1
			}
			if got := x.Find(at); got != want {
				t.Errorf("%#x: function %d, not %d", at, got, want)
			}
		}
	}
	if x := NewIndex(&Object{}); x.Find(0) != -1 {
		t.Error("a function is found where there is none")
	}
}

// TestFromFile: segments lie where the file says, and text has the rest of its last
// page if no other segment is there.
func TestFromFile(t *testing.T) {
	content := bytes.Repeat([]byte{0xcc}, 0x3000)
	scan := &elfscan.Object{Type: elf.ET_EXEC, Segments: []elfscan.Segment{
		{Addr: 0x1000, Offset: 0x1000, FileSize: 0x800, MemSize: 0x800, Flags: elf.PF_R | elf.PF_X},
		{Addr: 0x2000, Offset: 0x2000, FileSize: 0x800, MemSize: 0x800, Flags: elf.PF_R},
		{Addr: 0x5000, Offset: 0x2800, FileSize: 0x800, MemSize: 0x800, Flags: elf.PF_R | elf.PF_X},
		{Addr: 0x5900, Offset: 0x0, FileSize: 0x10, MemSize: 0x10, Flags: elf.PF_R},
		{Addr: 0x7000},
	}}
	o := FromFile(scan, content, 0x10)
	if !o.Absolute || o.Run(0x1000) != 0x1010 {
		t.Errorf("absolute %v, 0x1000 runs at %#x", o.Absolute, o.Run(0x1000))
	}
	for addr, want := range map[uint64]int{0xfff: 0, 0x1000: 0x800, 0x17ff: 1, 0x1800: 0x800, 0x2000: 0, 0x57ff: 1, 0x5800: 0, 0x7000: 0} {
		if n := len(o.Code(addr)); n != want {
			t.Errorf("%#x bytes of code at %#x, not %#x", n, addr, want)
		}
	}
	if n := len(o.Bytes(0x2000)); n != 0x800 {
		t.Errorf("%#x bytes of data", n)
	}
	if n := len(o.Text); n != 3 || !o.Text[1].Tail {
		t.Errorf("%d pieces of text", n)
	}
}
