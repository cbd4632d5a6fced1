package heat

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// someAllocs has each kind of block.
var someAllocs = Allocs{
	Callers: []Caller{{Back: 0x5555_0000_1234, Blocks: 3, Bytes: 300, Freed: 1, Gone: 100, Peak: 300}, {Back: 0, Blocks: 1, Bytes: 1 << 36, Unheld: 1}},
	Blocks:  []Block{{Address: 0x1000, Bytes: 100, Born: 5, Died: 5}, {Address: 0x1000, Bytes: 4000, Born: 7, Died: 900}, {Address: 0x1008, Bytes: 0, Born: 9, Live: true}, {Address: 0x7fff_0000_0000, Bytes: 1 << 30, Caller: 1, Live: true}},
	Untold:  1, Short: 2, Dropped: 3, Unled: 4, Children: 5,
}

// TestAllocsFile: what is written is read; of what is cut short, or was changed, there is an error.
func TestAllocsFile(t *testing.T) {
	table := filepath.Join(t.TempDir(), "a.dynprof")
	nonce := [16]byte{1, 2}
	if _, err := ReadAllocs(table, nonce); !errors.Is(err, ErrNoAllocs) {
		t.Errorf("%v", err)
	}
	if err := someAllocs.Write(table, nonce); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAllocs(table, nonce)
	if err != nil {
		t.Fatal(err)
	}
	want := someAllocs
	want.table = got.table
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v, not %+v", *got, want)
	}
	if _, err := ReadAllocs(table, [16]byte{3}); !errors.Is(err, ErrNoAllocs) {
		t.Errorf("of another table: %v", err)
	}
	other := filepath.Join(filepath.Dir(table), "b.dynprof")
	if err := CopyAllocs(table, other, nonce); err != nil {
		t.Fatal(err)
	}
	Remove(other)
	if _, err := ReadAllocs(other, nonce); !errors.Is(err, ErrNoAllocs) {
		t.Errorf("it is still there: %v", err)
	}
}

// FuzzAllocs: whatever the file is, it is read or an error.
func FuzzAllocs(f *testing.F) {
	table := filepath.Join(f.TempDir(), "a.dynprof")
	if err := someAllocs.Write(table, [16]byte{}); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(AllocsPath(table))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-9])
	f.Add([]byte(`{"dynprof_allocs":1}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseAllocs(b)
		if (a == nil) == (err == nil) {
			t.Fatalf("%v, %v", a, err)
		}
		if err != nil {
			return
		}
		for i := range a.Blocks {
			if b := &a.Blocks[i]; int(b.Caller) >= len(a.Callers) || i > 0 && b.Address < a.Blocks[i-1].Address || !b.Live && b.Died < b.Born {
				t.Fatalf("%+v", *b)
			}
		}
	})
}

// TestAllocsIn: blocks are found by what lies in them, however large others are.
func TestAllocsIn(t *testing.T) {
	for _, row := range []struct {
		from, to uint64
		want     []uint64 // sizes
	}{{0, 0x1000, nil}, {0x1000, 0x1001, []uint64{100, 4000}}, {0x1064, 0x1065, []uint64{4000}}, {0x1fa0, 0x2000, nil}, {0x7fff_3fff_ffff, 0x7fff_4000_0001, []uint64{1 << 30}}} {
		var got []uint64
		a := someAllocs
		a.In(row.from, row.to, func(b *Block) {
			if b.Bytes > 0 {
				got = append(got, b.Bytes)
			}
		})
		if !slices.Equal(got, row.want) {
			t.Errorf("%#x to %#x: %v, not %v", row.from, row.to, got, row.want)
		}
	}
}

// TestHeldRing: what is in the ring is taken, turn by turn, and when it came and went is known; of more than are
// kept the last ones are.
func TestHeldRing(t *testing.T) {
	all, err := NamedWithBlocks("pages")
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	s, err := all.Shadow(0)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Held()
	if err != nil || h == nil {
		t.Fatalf("%v, %v", h, err)
	}
	defer h.Leave()
	number := uint64(0)
	put := func(address, size, look uint64) {
		at := layout.AlRing/8 + 2*(number%layout.AlRingMax)
		h.words[at+1] = size | look<<layout.HeldLook
		h.words[at] = address>>layout.HeldUnit | (number/layout.AlRingMax+1)&3<<layout.HeldState
		number++
	}
	if h.get(layout.AlLook) != 1 || h.get(layout.AlBrief) != layout.AlBriefs {
		t.Fatal("it does not begin with the first look")
	}
	put(0x1000, 16, 1)
	h.Look()
	put(0x2000, 32, 1)
	put(0x3000, 48, 2)
	h.Look()
	a, err := h.Allocs(h.begun)
	if err != nil || len(a.Blocks) != 3 || h.get(layout.AlTail) != 3 {
		t.Fatalf("%+v, %v", a, err)
	}
	for i, want := range []struct{ born, died time.Duration }{{h.looks[0], h.looks[1]}, {h.looks[0], h.looks[2]}, {h.looks[1], h.looks[2]}} {
		if b := a.Blocks[i]; b.Born != uint64(want.born) || b.Died != uint64(want.died) || b.Live || b.Address != uint64(i+1)<<12 || b.Bytes != uint64(i+1)<<4 {
			t.Errorf("%+v, not %+v", b, want)
		}
	}
	if len(h.lived.list) != 1 || len(h.brief.list) != 2 {
		t.Errorf("%d and %d", len(h.lived.list), len(h.brief.list))
	}
	for turn := range 5 { // the ring has two bits for its turns
		for range layout.AlRingMax {
			put(0x5000+8*number, 8, uint64(turn))
		}
		h.Look()
		if h.tail != number {
			t.Fatalf("turn %d: %d taken of %d", turn, h.tail, number)
		}
	}
	if a, err = h.Allocs(h.begun); err != nil || a.Dropped == 0 || uint64(len(a.Blocks))+a.Dropped != number {
		t.Errorf("%d blocks and %d dropped of %d, %v", len(a.Blocks), a.Dropped, number, err)
	}
}
