package survey

import (
	"encoding/binary"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestThunkOrigins: the record of a thunk names each of its instructions, up to
// its own system call, and covers the site.
func TestThunkOrigins(t *testing.T) {
	o := fixture.Load(t, fixture.Libc)
	s := emit.Origins{Base: fixture.ArenaAt}
	sites := New(o, 1).KernelSites()
	for i, site := range sites {
		thunk := make([]byte, emit.ThunkSize)
		at := fixture.ArenaAt.Add(i * emit.ThunkSize)
		if err := emit.EmitThunk(o, site, thunk, at, fixture.Slow); err != nil {
			t.Fatal(err)
		}
		s.AddThunk(o, site, at)
		arena := emit.ArenaRef{At: uint64(fixture.ArenaAt)}
		moved := arena.Read(s.Records, s.Lengths)[i]
		originals, copies := moved.Originals, moved.Copies
		pos, covered := 0, 0
		for k := range copies {
			var in x86.Inst
			err := x86.Decode(thunk[pos:], &in)
			if in.Op == 0xff { // jmp *literal: an address follows
				pos += 8
				copies[k] -= 8
				home := uint64(o.Run(site.Addr)) + uint64(len(site.Setup)) + 2
				if at := binary.LittleEndian.Uint64(thunk[pos+int(in.Len)-8:]); at != home {
					t.Errorf("thunk of %#x: unwinders go on at %#x, not at %#x", site.Addr, at, home)
				}
			}
			if err != nil || int(in.Len) != copies[k] {
				t.Errorf("thunk of %#x: %d bytes at %d, not %d (%v)", site.Addr, copies[k], pos, in.Len, err)
			}
			pos += copies[k]
			covered += originals[k]
		}
		if want := int(site.End() - site.Addr); covered != want {
			t.Errorf("thunk of %#x covers %d bytes, not %d", site.Addr, covered, want)
		}
	}
	if len(sites) < 5 {
		t.Errorf("%d kernel sites", len(sites))
	}
}
