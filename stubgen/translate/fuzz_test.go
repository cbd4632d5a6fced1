package translate

import (
	"errors"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/flow"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// FuzzCopies: whatever a function's bytes, jump tables and pointers are, there is a copy
// that fits where it was said to fit, and what stays of the old body lies apart, or a
// reason.
func FuzzCopies(f *testing.F) {
	f.Add([]byte("\x55\xe8\x00\x00\x00\x00\x74\x02\x31\xc0\x5d\xc3\xff\x24\xc5\x00\x20\x40\x00"), []byte{16, 0, 0, 0}, uint16(9), uint16(4), true)
	f.Add([]byte("\xe3\x02\xe2\xfc\xf3\x0f\x1e\xfa\x48\x8d\x15\xf1\x0f\x00\x00\xff\xe0\x0f\x05\xeb\xf0"), []byte{0xf0, 0xef, 0xff, 0xff}, uint16(4), uint16(0), false)
	f.Fuzz(func(t *testing.T, code, data []byte, split, pad uint16, absolute bool) {
		const text, table = 0x401000, 0x402000
		if len(code) < 2 || len(code) > table-text {
			return
		}
		middle := uint64(split)%uint64(len(code)-1) + 1
		o := &stubgen.Object{
			Absolute: absolute,
			Text:     []stubgen.Segment{{Addr: text, Code: code}},
			Data:     []stubgen.Segment{{Addr: table, Code: data}},
			Functions: []elfscan.Function{
				{Addr: text, Size: middle, Source: ledger.SourceSymtab, Name: "f"},
				{Addr: text + middle, Size: uint64(len(code)) - middle, Source: ledger.SourceEhFrame},
			},
			Ranges:       []elfscan.Range{{Low: text, High: text + uint64(len(code))}},
			CodePointers: []uint64{text + uint64(split)/2%uint64(len(code))},
		}
		at := text + uint64(pad)%uint64(len(code))
		p := flow.New(survey.New(o, 1), []elfscan.CallSite{{Low: text, High: at + 1, Pad: at}}, 1)
		for i := range p.Units() {
			g, why := p.Graph(i)
			if (g == nil) == (why == ledger.ReasonNone) {
				t.Fatalf("graph %t, %q", g != nil, why)
			}
			if g == nil {
				continue
			}
			g.Loops()
			h, why := PlanHome(g)
			if (h == nil) == (why == ledger.ReasonNone) {
				t.Fatalf("home %t, %q", h != nil, why)
			}
			if h == nil {
				continue
			}
			apart(t, h)
			c := Lower(h)
			c.RebuildTables(o)
			if pad%3 == 0 {
				c.CountTrips()
			}
			// random bytes refer to what an arena cannot reach; the patcher refuses that, too
			if _, _, err := encode(t, c, o, pad%2 == 0); err != nil && (!errors.Is(err, x86.ErrReach) || errors.Is(err, x86.ErrShort)) {
				t.Fatal(err)
			}
			solve(t, c, make([]uint64, c.Counters+1))
		}
	})
}
