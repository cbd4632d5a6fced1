package heat

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// slicesOf are all of a file's, with ranges of their own.
func slicesOf(f *File) (all []Slice) {
	f.Each(func(s *Slice) {
		one := *s
		one.Ranges = append([]Range(nil), s.Ranges...)
		all = append(all, one)
	})
	return all
}

// randomSlice is one that could be behind another.
func randomSlice(r *rand.Rand, before *Slice) *Slice {
	s := &Slice{Executed: before.Executed + uint64(r.IntN(500)), Time: before.Time + 1 + uint64(r.IntN(1000)), Resident: uint64(r.IntN(90)), Parts: 1}
	for p := uint64(r.IntN(30)); p < 200 && len(s.Ranges) < 9; {
		one := Range{First: p, Pages: 1 + uint64(r.IntN(5)), What: What(1 + r.IntN(7))}
		s.Ranges = append(s.Ranges, one)
		p += one.Pages + uint64(r.IntN(40))
	}
	return s
}

// TestFollow: who follows a file knows at any time what is in it, whoever writes makes slices
// one, or begins anew, and however a record comes in parts.
func TestFollow(t *testing.T) {
	table := filepath.Join(t.TempDir(), "a.dynprof")
	nonce := [16]byte{7}
	f := Follow(table, nonce)
	defer f.Close()
	if _, _, err := f.Next(); err != ErrNone {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	l := &Log{Apart: 1}
	maps := &Maps{Mappings: []Mapping{{Start: 0x1000, End: 0x3000, Path: "/a"}}}
	if err := l.Open(table, nonce, maps); err != nil {
		t.Fatal(err)
	}
	same := func(times int) {
		t.Helper()
		got, _, err := f.Next()
		want, wrong := Read(table, nonce)
		if err != nil || wrong != nil || got.Times != times || got.Written.IsZero() {
			t.Fatalf("%v, %v, %d times, not %d", err, wrong, got.Times, times)
		}
		if !reflect.DeepEqual(slicesOf(got.File), slicesOf(want)) || !reflect.DeepEqual(got.File.Maps, want.Maps) || got.File.Count != want.Count {
			t.Fatalf("%d slices, not %d", got.File.Count, want.Count)
		}
		if _, isNew, err := f.Next(); isNew || err != nil {
			t.Fatalf("there is more: %v", err)
		}
	}
	var last Slice
	for range 300 {
		last = *randomSlice(r, &last)
		l.Add(&last)
		if r.IntN(3) == 0 {
			same(1)
		}
	}
	early, _, err := f.Next()
	if err != nil {
		t.Fatal(err)
	}
	was := slicesOf(early.File)

	// A record comes in two parts.
	record := func() []byte {
		last = *randomSlice(r, &last)
		l.put(&last)
		return l.slices[len(l.slices)-1].record
	}()
	for _, part := range [][]byte{record[:1], record[1:7], record[7:]} {
		if _, err := l.file.Write(part); err != nil {
			t.Fatal(err)
		}
		same(1)
	}
	if !reflect.DeepEqual(slicesOf(early.File), was) {
		t.Error("what was returned earlier is another by now")
	}

	// Slices are made one, and the end is written.
	l.shrink()
	if err := l.write(); err != nil {
		t.Fatal(err)
	}
	same(2)
	last = *randomSlice(r, &last)
	l.Add(&last)
	same(2)
	maps.Ended = true
	if err := l.Close(table, nonce, maps); err != nil {
		t.Fatal(err)
	}
	same(3)

	// Damage, and a file of another table.
	b, err := os.ReadFile(PathOf(table))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(PathOf(table), append(b, 's', 1, 0, 1, 2, 3, 4, 5, 6, 7, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Next(); !errors.Is(err, errDamaged) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(PathOf(table), bytes.Replace(b, []byte("07000"), []byte("08000"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Next(); err != ErrNone {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(PathOf(table), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, isNew, err := f.Next(); !isNew || err != nil {
		t.Errorf("%v", err)
	}
}

// TestWithin: a part is what is in it, page by page.
func TestWithin(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	l := &Log{Apart: 1}
	var last Slice
	for range 100 {
		last = *randomSlice(r, &last)
		l.put(&last)
	}
	f := l.whole(&Maps{})
	all := slicesOf(f)
	for range 300 {
		first, after := uint64(r.IntN(200)), uint64(r.IntN(int(last.Executed)))
		part := Part{first, first + uint64(r.IntN(100)), after, after + 1 + uint64(r.IntN(5000))}
		want := map[uint64]Range{}
		for i := range all {
			began := uint64(0)
			if i > 0 {
				began = all[i-1].Executed
			}
			if began >= part.Before || max(all[i].Executed, began+1) <= part.After {
				continue
			}
			for _, one := range all[i].Ranges {
				for p := one.First; p < one.First+one.Pages; p++ {
					if p < part.First || p >= part.End {
						continue
					}
					had, is := want[p]
					if !is {
						had = Range{First: p, Pages: 1, Begin: uint32(i + 1)}
					}
					had.What |= one.What
					had.End = uint32(i + 1)
					want[p] = had
				}
			}
		}
		got := map[uint64]Range{}
		for _, one := range f.Within(part) {
			for p := one.First; p < one.First+one.Pages; p++ {
				single := one
				single.First, single.Pages = p, 1
				got[p] = single
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v: %v, not %v", part, got, want)
		}
	}

	// A cursor goes on where it was, and can be stopped.
	var numbers []int
	c := &Cursor{}
	for f.From(c, func(s *Slice, c *Cursor) bool { numbers = append(numbers, c.Number); return len(numbers)%7 != 0 }); len(numbers) < len(all); {
		f.From(c, func(s *Slice, c *Cursor) bool { numbers = append(numbers, c.Number); return false })
	}
	for i, n := range numbers {
		if n != i+1 {
			t.Fatalf("%v", numbers)
		}
	}
}

// TestFull: a slice that is there before others are made one is no damage, for whoever reads
// then.
func TestFull(t *testing.T) {
	table := filepath.Join(t.TempDir(), "a.dynprof")
	l := &Log{Apart: 1 << 40}
	if err := l.Open(table, [16]byte{1}, &Maps{}); err != nil {
		t.Fatal(err)
	}
	f := Follow(table, [16]byte{1})
	defer f.Close()
	s := Slice{Parts: 1}
	for range mostSlices {
		s.Time += 1 << 41
		l.Add(&s)
	}
	for n, ok := range []bool{true, true, false} {
		if _, err := Read(table, [16]byte{1}); (err == nil) != ok {
			t.Errorf("with %d more: %v", n, err)
		}
		if _, _, err := f.Next(); (err == nil) != ok {
			t.Errorf("with %d more, followed: %v", n, err)
		}
		l.put(&s)
		if _, err := l.file.Write(l.slices[len(l.slices)-1].record); err != nil {
			t.Fatal(err)
		}
	}
}
