package stubgen

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
)

// lengths are those of record i: of the originals, of the copies.
func (s *Origins) lengthsOf(i int) (originals, copies []int) {
	r := s.Records[i*OriginSize:]
	at, n := binary.LittleEndian.Uint32(r[8:]), int(binary.LittleEndian.Uint16(r[12:]))
	for _, l := range slices.Collect(slices.Chunk(s.Lengths[at:], 2))[:n] {
		originals, copies = append(originals, int(l[0]&^originCall)), append(copies, int(l[1]))
	}
	return originals, copies
}

// TestThunkOrigins: the record of a thunk names each of its instructions, up to
// its own system call, and covers the site.
func TestThunkOrigins(t *testing.T) {
	const libc = "/lib/x86_64-linux-gnu/libc.so.6"
	if _, err := os.Stat(libc); err != nil {
		t.Skip(err)
	}
	o := load(t, libc)
	s := Origins{Base: arenaAt}
	sites := NewSurvey(o, 1).KernelSites()
	for i, site := range sites {
		thunk := make([]byte, ThunkSize)
		at := arenaAt.Add(i * ThunkSize)
		if err := EmitThunk(o, site, thunk, at, testSlow); err != nil {
			t.Fatal(err)
		}
		s.AddThunk(o, site, at)
		originals, copies := s.lengthsOf(i)
		pos, covered := 0, 0
		for k := range copies {
			var in x86.Inst
			if err := x86.Decode(thunk[pos:], &in); err != nil || int(in.Len) != copies[k] {
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

// TestByText: the order of the text that records stand for.
func TestByText(t *testing.T) {
	s := Origins{Base: arenaAt}
	for i, from := range []int{0x500, -0x400, 0x7fffff00, 0, -0x7fffff00} {
		s.add(arenaAt.Add(16*i), arenaAt.Add(from), 9, 0, 0)
	}
	if got := ByText(s.Records); !slices.Equal(got, []uint32{4, 1, 3, 0, 2}) {
		t.Errorf("order %v", got)
	}
}
