package heat

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// TestMapsAdd: at each page is what the newer list has there; else what had a name before, which is
// gone, or, behind the end of a list that is cut, all that there was.
func TestMapsAdd(t *testing.T) {
	const pages = 40
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 9))
		random := func() (list []Mapping) {
			for p := uint64(r.IntN(4)); p < pages; p += uint64(r.IntN(4)) {
				end := min(p+1+uint64(r.IntN(8)), pages)
				list = append(list, Mapping{Start: p * PageSize, End: end * PageSize, Offset: p * PageSize, Path: []string{"", "/a", "/b"}[r.IntN(3)], Resident: PageSize, Gone: r.IntN(5) == 0})
				p = end
			}
			return list
		}
		at := func(list []Mapping, page uint64) *Mapping {
			for i := range list {
				if m := &list[i]; page*PageSize >= m.Start && page*PageSize < m.End {
					return m
				}
			}
			return nil
		}
		old, newer := &Maps{Mappings: random()}, &Maps{Mappings: random(), Cut: r.IntN(2) == 0, Ended: true}
		for i := range newer.Mappings {
			newer.Mappings[i].Gone = false
		}
		all := old.Add(newer)
		if !all.inOrder() || !all.Ended {
			t.Fatalf("seed %d: %+v", seed, all)
		}
		end := uint64(pages)
		if n := len(newer.Mappings); newer.Cut && n > 0 {
			end = newer.Mappings[n-1].End / PageSize
		}
		for p := range uint64(pages) {
			now, before, got := at(newer.Mappings, p), at(old.Mappings, p), at(all.Mappings, p)
			want := now
			if now == nil && before != nil && (before.Path != "" || p >= end) {
				want = before
			}
			if (want == nil) != (got == nil) || got != nil && (got.Path != want.Path || p*PageSize-got.Start+got.Offset != p*PageSize || got.Gone != (want == before && (p < end || before.Gone))) {
				t.Fatalf("seed %d: page %d: %+v, not %+v: %+v, then %+v", seed, p, got, want, old, newer)
			}
		}
		for range 20 {
			one := Range{First: uint64(r.IntN(pages)), Pages: 1 + uint64(r.IntN(5))}
			two := Range{First: one.end() + uint64(r.IntN(3)), Pages: 1}
			var missing []uint64
			for _, r := range []Range{one, two} {
				for p := r.First; p < r.end(); p++ {
					if m := at(all.Mappings, p); m == nil || m.Gone {
						missing = append(missing, p*PageSize)
					}
				}
			}
			first, is := all.Unknown([]Range{one, two}, Page)
			if is != (len(missing) > 0) || is && first != missing[0] {
				t.Fatalf("seed %d: %#x, %v, not %#x: %+v", seed, first, is, missing, all)
			}
		}
	}
}

// TestFilesIn: of a copy of /proc/PID/maps files are taken, and what is none is an error.
func TestFilesIn(t *testing.T) {
	const text = "00108000-0010c000 r--p 00001000 fe:00 131                        /usr/bin/a b\n0010c000-0010d000 rw-p 00000000 00:00 0 \n00110000-00111000 rw-p 00000000 00:00 0                          [heap]\n"
	m, err := FilesIn([]byte(text))
	if want := []Mapping{{Start: 0x108000, End: 0x10c000, Offset: 0x1000, Path: "/usr/bin/a b", Gone: true}}; err != nil || !slices.Equal(m.Mappings, want) {
		t.Errorf("%+v, %v", m, err)
	}
	for _, text := range []string{"a", smaps, text[:20], "2000-3000 r--p 0 0:0 1 /b\n1000-2000 r--p 0 0:0 1 /a\n", "1000-1000 r--p 0 0:0 1 /a\n"} {
		if m, err := FilesIn([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, m)
		}
	}
}

// TestMapsOf: a process's mappings are told of one that has the shadow only.
func TestMapsOf(t *testing.T) {
	s, other := newShadow(t, Page), newShadow(t, Page)
	for _, resident := range []bool{false, true} {
		list, err := s.MapsOf(os.Getpid(), resident)
		if err != nil || !slices.ContainsFunc(list, func(m Mapping) bool { return m.Path == "[stack]" && (m.Resident > 0) == resident }) {
			t.Errorf("%v: %+v", err, list)
		}
	}
	if list, err := s.MapsOf(os.Getppid(), false); err == nil {
		t.Errorf("of another process: %+v", list)
	}
	s.Leave()
	if list, err := s.MapsOf(os.Getpid(), false); err == nil {
		t.Errorf("of one that has another shadow: %+v", list)
	}
	next, err := other.Shadows.Shadow(1)
	if err != nil {
		t.Skip(err)
	}
	other.Leave()
	if list, err := other.MapsOf(os.Getpid(), false); err == nil {
		t.Errorf("of one that has the next: %+v", list)
	}
	if _, err := next.MapsOf(os.Getpid(), false); err != nil {
		t.Error(err)
	}
}
