package patcher

import (
	"testing"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher/place"
)

// TestCodes: no two objects have a number for an instruction, and what finds no room, or has no file,
// or begins elsewhere than its file, has none that is told.
func TestCodes(t *testing.T) {
	const page = 4096
	of := func(low, size, bias uint64, files bool) *object {
		o := &object{span: place.Span{Low: low, High: low + size + page}, bias: bias}
		if files {
			o.files = []procmaps.Mapping{{Start: low &^ (page - 1), End: low + size/2}, {Start: low + size/2, End: low + size}}
		}
		return o
	}
	all := []*object{of(0x400000, 2*page, 0, true), of(0x7f0000001000, page, 0x7f0000000000, true), of(0x7f1000000000, page, 0x7f1000000000, false), of(0x7f2000000000, 1<<31, 0x7f2000000000, true), of(0x7f3000000000, 4*page, 0x7f3000000000, true)}
	elsewhere := of(0x7f4000000000, page, 0x7f4000000000, true)
	elsewhere.span.Low -= page
	p := &Plan{base: &base{codes: 7}, all: append(all, elsewhere)}
	p.numberCodes()
	for i, want := range []struct {
		first, n uint32
		low      uint64
	}{
		{8, 2 * page, 0x400000}, {8 + 2*page, page, 0x1000}, {layout.MostCodes, 0, 0}, {layout.MostCodes, 0, 0}, {8 + 3*page, 4 * page, 0}, {layout.MostCodes, 0, 0},
	} {
		if o := p.all[i]; o.codes.First != want.first || o.toldCodes != want.n || o.codes.Low != want.low {
			t.Errorf("object %d: %+v, %d, not %+v", i, o.codes, o.toldCodes, want)
		}
	}
	c := &p.all[0].codes
	if got := c.Of(0x400010); got != 8+0x10 {
		t.Errorf("%#x", got)
	}
	if got := p.all[3].codes.Of(1 << 40); got != 1<<32-1 {
		t.Errorf("beyond all: %#x", got)
	}
}
