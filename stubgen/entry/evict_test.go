package entry

import (
	"bytes"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// TestLargeNeighbour: a neighbour is searched for a place if it is not too large; if
// it is, the function says why it is not counted.
func TestLargeNeighbour(t *testing.T) {
	const at = 0x401000
	calls := bytes.Repeat([]byte{0xe8, 0, 0x10, 0, 0}, 14)                                              // they cannot move
	first := slices.Concat([]byte{0x48, 0x83, 0xec, 0x18}, calls, []byte{0xff, 0xcf, 0x75, 0xb2, 0xc3}) // a loop to the entry
	load := []byte{0x48, 0x8b, 0x44, 0x24, 0x08}                                                        // mov 8(%rsp),%rax
	for _, row := range []struct {
		size   int
		tactic ledger.Tactic
		reason ledger.Reason
	}{
		{200, ledger.TacticEvict, ledger.ReasonNone},
		{maxHost, ledger.TacticEvict, ledger.ReasonNone},
		{maxHost + 1, ledger.TacticNone, ledger.ReasonEntryLoop},
	} {
		body := append(bytes.Repeat(load, row.size/len(load)), bytes.Repeat([]byte{0xc3}, row.size%len(load))...)
		o := &stubgen.Object{
			Text: []stubgen.Segment{{Addr: at, Code: slices.Concat(first, body)}},
			Functions: []elfscan.Function{
				{Addr: at, Size: uint64(len(first)), Source: ledger.SourceSymtab},
				{Addr: at + uint64(len(first)), Size: uint64(len(body)), Source: ledger.SourceSymtab},
			},
		}
		if p := Plans(survey.New(o, 1), Options{}, 1, nil)[0]; p.Tactic != row.tactic || p.Reason != row.reason {
			t.Errorf("%d bytes: %v %v, not %v %v", row.size, p.Tactic, p.Reason, row.tactic, row.reason)
		}
	}
}
