package patch

import (
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// TestLeadCall: a call is led to a stub in reach, unless a patch overlaps it.
func TestLeadCall(t *testing.T) {
	const text, bias = 0x1000, 0x7f0000000000
	code := make([]byte, 0x80)
	copy(code[0x10:], "\xe8\x2b\x00\x00\x00")
	o := &stubgen.Object{
		Bias: bias, Functions: []elfscan.Function{{Addr: text}, {Addr: text + 0x40}},
		Text: []stubgen.Segment{{Addr: text, Code: code}},
	}
	call := survey.Call{At: text + 0x10, From: 0, To: 1}
	patch := func(from, size uint64) *Patch { return &Patch{At: o.Run(text + from), Len: uint32(size)} }
	start, near := o.Run(text), o.Run(text+0x100000)
	for name, row := range map[string]struct {
		stub  x86.RunAddr
		patch *Patch
		ok    bool
	}{
		"no patch":           {near, nil, true},
		"a patch behind":     {near, patch(0x15, 5), true},
		"its last byte":      {near, patch(0x14, 5), false},
		"its first byte":     {near, patch(0x0c, 5), false},
		"a patch in front":   {near, patch(0x0b, 5), true},
		"as far as it goes":  {o.Run(text + 0x15 + 0x7fffffff), nil, true},
		"one byte too far":   {o.Run(text + 0x15 + 0x80000000), nil, false},
		"far below":          {o.Run(text + 0x15).Add(-0x80000000), nil, true},
		"farther than below": {o.Run(text + 0x15).Add(-0x80000001), nil, false},
	} {
		got, ok := Groups(7).LeadCall(o, call, row.stub, start, row.patch)
		if ok != row.ok {
			t.Errorf("%s: %v", name, ok)
		}
		if want := (Call{At: 0x11, Group: 8, Old: 0x40 - 0x15, New: uint32(row.stub - o.Run(text+0x15))}); ok && got != want {
			t.Errorf("%s: %+v, not %+v", name, got, want)
		}
	}
}

// TestLeadCallBySlot: what a call was is what is in the code.
func TestLeadCallBySlot(t *testing.T) {
	const text = 0x1000
	o := &stubgen.Object{
		Functions: []elfscan.Function{{Addr: text}, {Addr: text + 0x40}},
		Text:      []stubgen.Segment{{Addr: text, Code: []byte("\xe8\x20\x00\x00\x00\xc3")}},
	}
	got, ok := Groups(7).LeadCall(o, survey.Call{At: text, To: 1}, text+0x100, text, nil)
	if want := (Call{At: 1, Group: 8, Old: 0x20, New: 0xfb, BySlot: true}); !ok || got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}
