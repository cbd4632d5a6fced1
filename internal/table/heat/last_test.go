package heat

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/table/beside"
)

// TestLasts: which instructions have touched which page last is what the program has stored last, and in
// the file, also when it was told before.
func TestLasts(t *testing.T) {
	s := firstShadow(t, func() (*Shadows, error) { return Named(ByCode) })
	program, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	le := binary.LittleEndian
	put := func(page int64, reader, writer uint32) {
		t.Helper()
		for i, n := range []uint32{reader, writer} {
			if _, err := program.WriteAt(le.AppendUint32(nil, n), 8*page+4*int64(i)); n > 0 && err != nil {
				t.Fatal(err)
			}
		}
	}
	taken := func(want ...Range) {
		t.Helper()
		if got, err := s.Take(nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, not %v: %v", got, want, err)
		}
	}
	const text = "00400000-00402000 r-xp 00000000 fe:00 131 /opt/a\n"
	if _, err := program.WriteAt(append(le.AppendUint64(nil, uint64(len(text))), text...), 4*Page.shadow()); err != nil || !s.Had() {
		t.Error("the program has not had it:", err)
	}
	log := &Log{Code: true}
	path := filepath.Join(t.TempDir(), "t")
	if err := log.Open(path, [16]byte{1}, &Maps{}); err != nil {
		t.Fatal(err)
	}
	look := func(want ...ByLast) {
		t.Helper()
		log.Touched(s)
		f, err := Read(path, [16]byte{1})
		if err != nil || !f.Code || !slices.Equal(f.Lasts, want) {
			t.Fatalf("%v, not %v: %v", f, want, err)
		}
		if got := f.LastsIn(0, Pages); !slices.Equal(got, want) {
			t.Errorf("of all: %v", got)
		}
		if got := f.LastsIn(0, want[0].First); len(got) > 0 {
			t.Errorf("in front of all: %v", got)
		}
		last := want[len(want)-1:]
		if got := f.LastsIn(last[0].First+last[0].Pages-1, Pages); !slices.Equal(got, last) {
			t.Errorf("the last: %v", got)
		}
	}
	put(8, 1<<32-1, 0)
	put(9, 0, 7)
	put(511, 5, 6)
	put(512, 5, 6)
	put(int64(Pages-1), 1, 0)
	taken(Range{First: 8, Pages: 1, What: WasRead}, Range{First: 9, Pages: 1, What: WasWritten}, Range{First: 511, Pages: 2, What: WasRead | WasWritten}, Range{First: Pages - 1, Pages: 1, What: WasRead})
	look(ByLast{8, 1, Last{1<<32 - 1, 0}}, ByLast{9, 1, Last{0, 7}}, ByLast{511, 2, Last{5, 6}}, ByLast{Pages - 1, 1, Last{1, 0}})
	put(0, 3, 0)
	put(8, 0, 7)
	put(512, 9, 0)
	taken(Range{First: 0, Pages: 1, What: WasRead}, Range{First: 8, Pages: 1, What: WasWritten}, Range{First: 512, Pages: 1, What: WasRead})
	taken()
	now := []ByLast{{0, 1, Last{3, 0}}, {8, 1, Last{1<<32 - 1, 7}}, {9, 1, Last{0, 7}}, {511, 1, Last{5, 6}}, {512, 1, Last{9, 6}}, {Pages - 1, 1, Last{1, 0}}}
	look(now...)
	if err := log.Close(path, [16]byte{1}, &Maps{}); err != nil {
		t.Fatal(err)
	}
	look(now...)
	if err := Copy(path, path+"2", [16]byte{1}); err != nil {
		t.Fatal(err)
	}
	if f, err := Read(path+"2", [16]byte{1}); err != nil || !slices.Equal(f.Lasts, now) {
		t.Errorf("of a copy: %v, %v", f, err)
	}
}

// TestParseLasts: what may not be is an error.
func TestParseLasts(t *testing.T) {
	record := func(version string, numbers ...uint64) []byte {
		var body []byte
		for _, n := range numbers {
			body = binary.AppendUvarint(body, n)
		}
		return beside.AppendPart([]byte(`{"dynprof_heat":`+version+`,"granule":4096}`+"\n"), recordLast, body)
	}
	for _, b := range [][]byte{
		record("6", 1), record("6", 1, 1, 1), record("6", 1, 0, 1, 1), record("6", 1, 1, 0, 0), record("6", 1, 1, 1<<32, 1), record("6", 1, 1, 1, 1<<32),
		record("6", Pages, 1, 1, 1), record("6", 0, Pages+1, 1, 1), record("6", 1, 1, 1, 1, Pages-2, 1, 1, 1), record("6", 1, 1, 1, 1, 5),
		record("5", 1, 1, 1, 1), record("4", 1, 1, 1, 1),
	} {
		if f, err := Parse(b); err == nil {
			t.Errorf("%q: %v", b, f)
		}
	}
	for _, b := range [][]byte{record("6"), record("6", 0, Pages, 1, 0), record("6", 1, 1, 1<<32-1, 1<<32-1, Pages-3, 1, 0, 1)} {
		if _, err := Parse(b); err != nil {
			t.Errorf("%q: %v", b, err)
		}
	}
}
