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

// TestCallsBySlot: calls by the PLT are noted as calls of what its slots hold, if these are
// closed.
func TestCallsBySlot(t *testing.T) {
	const at, data, bias = 0x401000, 0x402000, 0x10000
	code, err := hex.DecodeString(strings.Join([]string{
		"e80b000000", // 401000  a: call the first jump
		"e811000000", // 401005  call the second
		"e9f1ffffff", // 40100a  jmp behind a's first instruction
		"cc",
		"ff25ea0f0000", // 401010  jmp *402000
		strings.Repeat("cc", 0x30),
	}, ""))
	if err != nil {
		t.Fatal(err)
	}
	copy(code[0x1b:], "\xf3\x0f\x1e\xfa\xf2\xff\x25\xe2\x0f\x00\x00") // endbr64; bnd jmp *402008
	slots := []byte("\x20\x20\x41\x00\x00\x00\x00\x00\x30\x20\x41\x00\x00\x00\x00\x00")
	for name, row := range map[string]struct {
		closed []elfscan.Range
		want   []Call
	}{
		"open":   {nil, nil},
		"closed": {[]elfscan.Range{{Low: data, High: data + 0x1000}}, []Call{{at, 0, 1}, {at + 5, 0, 2}}},
		"one":    {[]elfscan.Range{{Low: data + 8, High: data + 0x1000}}, []Call{{at + 5, 0, 2}}},
	} {
		o := &stubgen.Object{
			Bias: bias, Text: []stubgen.Segment{{Addr: at, Code: code}}, Data: []stubgen.Segment{{Addr: data, Code: slots}}, Closed: row.closed,
			Functions: []elfscan.Function{
				{Addr: at, Size: 0xf, Source: ledger.SourceSymtab}, {Addr: at + 0x1020, Size: 8, Source: ledger.SourceSymtab}, {Addr: at + 0x1030, Size: 8, Source: ledger.SourceSymtab},
			},
			NoteCalls: true,
		}
		if got := slices.Collect(New(o, 1).Calls()); !slices.Equal(got, row.want) {
			t.Errorf("%s: %x, not %x", name, got, row.want)
		}
	}
}

func changed(at, size uint64) func(*stubgen.Object) {
	return func(o *stubgen.Object) {
		o.Fixed = []stubgen.Fixed{{Low: at, High: at + size, Why: ledger.ReasonBytesChanged}}
	}
}
