package heat

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestTouched: what is taken of the shadows of threads is what is taken of one, and who touched which
// page is in the file, also when it was told before.
func TestTouched(t *testing.T) {
	s := firstShadow(t, func() (*Shadows, error) { return Named(ByThread) })
	program, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	put := func(thread, page int64, b ...byte) {
		t.Helper()
		if _, err := program.WriteAt(b, thread*Page.shadow()+2*page); err != nil {
			t.Fatal(err)
		}
	}
	taken := func(want ...Range) {
		t.Helper()
		if got, err := s.Take(nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, not %v: %v", got, want, err)
		}
	}
	const text = "00400000-00402000 r-xp 00000000 fe:00 131 /opt/a\n"
	if _, err := program.WriteAt(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), Threads*Page.shadow()); err != nil || !s.Had() {
		t.Error("the program has not had it:", err)
	}
	log := &Log{Threads: true}
	path := filepath.Join(t.TempDir(), "t")
	if err := log.Open(path, [16]byte{1}, &Maps{}); err != nil {
		t.Fatal(err)
	}
	look := func(want ...ByWhom) {
		t.Helper()
		log.Touched(s)
		f, err := Read(path, [16]byte{1})
		if err != nil || !f.Threads || len(f.Who) != len(want) {
			t.Fatalf("%v, not %v: %v", f, want, err)
		}
		for i, w := range want {
			if g := f.Who[i]; g.First != w.First || g.Pages != w.Pages || *g.Who != *w.Who {
				t.Errorf("%+v %+v, not %+v %+v", g, *g.Who, w, *w.Who)
			}
		}
		if who := f.WhoIn(0, want[0].First); who != nil {
			t.Errorf("in front of all: %v", who)
		}
		last := want[len(want)-1]
		if who := f.WhoIn(last.First+last.Pages-1, last.First+last.Pages+9); *who != *last.Who {
			t.Errorf("the last: %v", who)
		}
	}
	set := func(threads ...int) (s Set) {
		for _, n := range threads {
			s[n/64] |= 1 << (n % 64)
		}
		return s
	}
	put(0, 8, 1, 0)
	put(255, 8, 0, 1, 0, 1)
	put(70, 4, 1, 1)
	taken(Range{First: 4, Pages: 1, What: WasRead | WasWritten}, Range{First: 8, Pages: 1, What: WasRead | WasWritten}, Range{First: 9, Pages: 1, What: WasWritten})
	look(ByWhom{4, 1, &Who{set(70), set(70)}}, ByWhom{8, 1, &Who{set(0), set(255)}}, ByWhom{9, 1, &Who{set(), set(255)}})
	put(1, 9, 1, 1, 1, 1)
	put(255, 10, 0, 1)
	taken(Range{First: 9, Pages: 2, What: WasRead | WasWritten})
	look(ByWhom{4, 1, &Who{set(70), set(70)}}, ByWhom{8, 1, &Who{set(0), set(255)}}, ByWhom{9, 2, &Who{set(1), set(1, 255)}})
	if err := log.Close(path, [16]byte{1}, &Maps{}); err != nil {
		t.Fatal(err)
	}
	look(ByWhom{4, 1, &Who{set(70), set(70)}}, ByWhom{8, 1, &Who{set(0), set(255)}}, ByWhom{9, 2, &Who{set(1), set(1, 255)}})
	if err := Copy(path, path+"2", [16]byte{1}); err != nil {
		t.Fatal(err)
	}
	if f, err := Read(path+"2", [16]byte{1}); err != nil || len(f.Who) != 3 {
		t.Errorf("of a copy: %v, %v", f, err)
	}
}
