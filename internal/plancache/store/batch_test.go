package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestBatch: what one start writes stays until it is written, whatever else there is; what cannot
// stay is not written, and its writer hears of it.
func TestBatch(t *testing.T) {
	s, dir := open(t)
	const old, other, large, small, looks = "00000000000000aa" + Ext, "10000000000000ab" + Ext, "2000000000000001" + Ext, "3000000000000002" + Ext, "0000000000000003" + Ext
	for i, name := range []string{old, other} {
		then := time.Now().Add(time.Duration(i-30) * time.Hour)
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, make([]byte, 100), 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	list := func() (names []string) {
		plans, _, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range plans {
			names = append(names, f.Name)
		}
		slices.Sort(names)
		return names
	}
	beats := 0
	Beat = func() { beats++ }
	defer func() { Beat = nil }()
	b := s.Begin(700 + 2*atOnce)
	for _, w := range []struct {
		name string
		size int
		want error
	}{{large, 2*atOnce + 1, nil}, {small, 600, nil}, {looks, 200, ErrTooLarge}, {looks, 50, nil}} {
		if err := b.Write(w.name, make([]byte, w.size/2), nil, make([]byte, w.size-w.size/2)); !errors.Is(err, w.want) {
			t.Errorf("%d bytes: %v, not %v", w.size, err, w.want)
		}
	}
	if beats < 4 {
		t.Errorf("%d beats while some megabytes were written", beats)
	}
	// The first one that was written is the oldest of those that were used today.
	then := time.Now().Add(-100 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, large), then, then); err != nil {
		t.Fatal(err)
	}
	if err := b.End(); err != nil {
		t.Fatal(err)
	}
	if got, want := list(), []string{looks, large, small}; !slices.Equal(got, want) {
		t.Errorf("%q are left, not %q", got, want)
	}
	// A start with plans that are a part of all looks, whatever their names are: the oldest goes.
	for _, size := range []int{10, 100} {
		b = s.Begin(1000)
		if err := errors.Join(b.Write(other, make([]byte, size)), b.End()); err != nil {
			t.Fatal(err)
		}
		if got, want := len(list()), map[int]int{10: 4, 100: 3}[size]; got != want {
			t.Errorf("%d bytes: %d plans, not %d", size, got, want)
		}
	}
}
