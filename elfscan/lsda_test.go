package elfscan

import (
	"bytes"
	"os"
	"slices"
	"testing"
)

// TestCallSites: which landing pads a patch could hit.
func TestCallSites(t *testing.T) {
	ref := lsdaRef{lsda: 0x9000, addr: 0x1000, end: 0x1100}
	for _, row := range []struct {
		name string
		lsda []byte
		want []uint64
	}{
		{"near the start, none, in the middle", []byte{peOmit, peOmit, peUleb, 13, 0, 4, 1, 0, 4, 4, 0, 0, 8, 4, 0x80, 1, 0}, []uint64{0x1001}},
		{"with a type table", []byte{peOmit, 0x9b, 40, peUleb, 4, 0, 4, 8, 1}, []uint64{0x1008}},
		{"behind the window", []byte{peOmit, peOmit, peUleb, 4, 0, 4, 9, 0}, nil},
		{"in another part, by its base", []byte{peUdata4, 0, 0x20, 0, 0, peOmit, peUleb, 4, 0, 4, 6, 0}, []uint64{0x2006}},
		{"four-byte numbers", []byte{peOmit, peOmit, peUdata4, 13, 0, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0}, []uint64{0x1005}},
		{"cut", []byte{peOmit, peOmit, peUleb, 40, 0, 4, 1, 0}, nil},
		{"cut in a record", []byte{peOmit, peOmit, peUleb, 6, 0, 4, 1, 0, 4, 4}, []uint64{0x1001}},
		{"empty", nil, nil},
	} {
		if got := appendPads(nil, cursor{b: row.lsda, addr: ref.lsda}, ref); !slices.Equal(got, row.want) {
			t.Errorf("%s: %#x, want %#x", row.name, got, row.want)
		}
	}
}

// TestCallSitesOfLibrary: the sites of a library lie in its functions that have an area
// for them, and have the landing pads that a scan keeps among theirs.
func TestCallSitesOfLibrary(t *testing.T) {
	b, err := os.ReadFile("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")
	if err != nil {
		t.Skip(err)
	}
	scan, err := Scan(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	list, err := CallSites(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(list) < 1000 {
		t.Fatalf("%d sites, %v", len(list), err)
	}
	pads := map[uint64]bool{}
	for i, s := range list {
		pads[s.Pad] = true
		k, found := slices.BinarySearchFunc(scan.Functions, s.Low, func(f Function, at uint64) int {
			if f.Addr+f.Size <= at {
				return -1
			} else if f.Addr > at {
				return 1
			}
			return 0
		})
		if !found || !scan.Functions[k].LSDA || s.High <= s.Low || i > 0 && s.Low < list[i-1].Low {
			t.Errorf("site %x to %x, landing at %x", s.Low, s.High, s.Pad)
		}
	}
	for _, at := range scan.LandingPads {
		if !pads[at] {
			t.Errorf("landing pad %x is of no site", at)
		}
	}
}
