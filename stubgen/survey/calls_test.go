package survey

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
)

// TestCalls: direct calls of entries and tail calls are noted, as they stand; other
// branches, and what may be no call, are not.
func TestCalls(t *testing.T) {
	const at = 0x401000
	code, err := hex.DecodeString(strings.Join([]string{
		"e80b000000",   // 401000  call b
		"67e805000000", // 401005 addr32 call b
		"c3", "cccccccc",
		"e9ebffffff", // 401010  b: jmp a
		"e807000000", // 401015  call c+1
		"e801000000", // 40101a  call c
		"c3",
		"e8fbffffff",   // 401020  c: call 401020, itself
		"ff15e8d7ffff", // 401025 call *(%rip)
		"c3", "cccccccc",
		"e8cbffffff", // 401030  data: call a, and a byte that is no instruction
		"06", "c3",
	}, ""))
	if err != nil {
		t.Fatal(err)
	}
	object := func(edit func(*stubgen.Object)) *stubgen.Object {
		o := &stubgen.Object{
			Text: []stubgen.Segment{{Addr: at, Code: code}},
			Functions: []elfscan.Function{
				{Addr: at, Size: 0xc, Source: ledger.SourceSymtab}, {Addr: at + 0x10, Size: 0x10, Source: ledger.SourceSymtab},
				{Addr: at + 0x20, Size: 0xc, Source: ledger.SourceSymtab}, {Addr: at + 0x30, Size: 7, Source: ledger.SourceSymtab},
			},
			NoteCalls: true,
		}
		edit(o)
		return o
	}
	all := []Call{{at, 0, 1}, {at + 0x10, 1, 0}, {at + 0x1a, 1, 2}, {at + 0x20, 2, 2}}
	for name, row := range map[string]struct {
		edit func(*stubgen.Object)
		want []Call
	}{
		"all":       {func(*stubgen.Object) {}, all},
		"not asked": {func(o *stubgen.Object) { o.NoteCalls = false }, nil},
		"changed":   {changed(at+3, 1), all[1:]},
		"behind":    {changed(at+5, 1), all},
		"nested":    {func(o *stubgen.Object) { o.Functions[0].Size = 0x20 }, []Call{{at, 0, 1}, {at + 0x1a, 0, 2}, {at + 0x20, 2, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := slices.Collect(New(object(row.edit), 1).Calls()); !slices.Equal(got, row.want) {
				t.Errorf("%x, not %x", got, row.want)
			}
		})
	}
}

func changed(at, size uint64) func(*stubgen.Object) {
	return func(o *stubgen.Object) {
		o.Fixed = []stubgen.Fixed{{Low: at, High: at + size, Why: ledger.ReasonBytesChanged}}
	}
}
