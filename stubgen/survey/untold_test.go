package survey

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
)

// TestUntold: of what lies in no function, padding is none, and what crtstuff.c adds.
func TestUntold(t *testing.T) {
	const (
		fn      = "c3" // the functions at 0 and behind the code
		step    = "488d4701c3"
		padding = "cccc 90 6690 0f1f00 0000 662e0f1f840000000000"
		start   = "488d3d07000000 488d0500000000 4839f8 7401 c3 90 c3" // deregister_tm_clones
		frame   = "f30f1efa ebe4"                                      // frame_dummy
	)
	for _, row := range []struct {
		name, code string
		want       uint64
	}{
		{"nothing", "", 0},
		{"padding", padding, 0},
		{"code", step, 5},
		{"code in padding", padding + step + padding, 5},
		{"twice", step + padding + step, 10},
		{"what does not decode", "06 06", 2},
		{"an instruction that goes on in the next function", "e8", 1},
		{"start files", padding + start + frame + padding, 0},
		{"code behind them", start + frame + step, 5},
		{"other comparison", strings.Replace(start, "3d07", "3d08", 1) + frame, 27},
		{"start files of a fixed address", "b810204000 483d10204000 7401 c3 90 c3 ebef", 0},
		{"no end", start, 21},
	} {
		code, err := hex.DecodeString(strings.ReplaceAll(fn+row.code+fn, " ", ""))
		if err != nil {
			t.Fatal(row.name, err)
		}
		last := uint64(len(code) - 1)
		o := &stubgen.Object{
			Text:      []stubgen.Segment{{Addr: 0x1000, Code: code}},
			Ranges:    []elfscan.Range{{Low: 0x1000, High: 0x1000 + last + 1}},
			Functions: []elfscan.Function{{Addr: 0x1000, Size: 1, Source: ledger.SourceSymtab}, {Addr: 0x1000 + last, Size: 1, Source: ledger.SourceSymtab}},
		}
		if got := New(o, 1).Untold(); uint64(got) != row.want {
			t.Errorf("%s, between functions: %d bytes, not %d", row.name, got, row.want)
		}
		o.Functions[0].Size, o.Functions[0].Guessed = last, true
		if got := New(o, 1).Untold(); uint64(got) != row.want {
			t.Errorf("%s, behind one without a size: %d bytes, not %d", row.name, got, row.want)
		}
		o.Functions = o.Functions[:0]
		o.Ranges[0] = elfscan.Range{Low: 0x1001, High: 0x1000 + last}
		if got := New(o, 1).Untold(); uint64(got) != row.want && row.name != "an instruction that goes on in the next function" {
			t.Errorf("%s, without functions: %d bytes, not %d", row.name, got, row.want)
		}
		if o.CodeSize() != uint32(last-1) {
			t.Errorf("%s: %d bytes of code, not %d", row.name, o.CodeSize(), last-1)
		}
	}
}

// TestFlowLen: how far a function of unknown size surely goes.
func TestFlowLen(t *testing.T) {
	for code, want := range map[string]uint64{
		"c3 488d4701c3":       1,
		"7402 ebfc c3 c3":     5, // je leads further
		"ebfe c3":             2,
		"ffe0 c3 c3":          4, // anything may be the target
		"90 e900000000":       6,
		"90 90":               2,
		"e800000000 f30f1efa": 9,
	} {
		b, _ := hex.DecodeString(strings.ReplaceAll(code, " ", ""))
		if got := flowLen(b); got != want {
			t.Errorf("%s: %d bytes, not %d", code, got, want)
		}
	}
}
