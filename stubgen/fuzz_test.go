package stubgen

import (
	"errors"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
)

// FuzzPlan plans and emits functions of arbitrary bytes: nothing may panic,
// every stub has its planned size and consists of instructions, and none of its
// branches leads between the overwritten bytes of its entry.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0x5d, 0xc3}, byte(11), byte(0), uint32(0))
	f.Add([]byte{0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0xcf, 0x75, 0xf8, 0xc3, 0x90, 0x90, 0x90}, byte(9), byte(3), uint32(1))
	f.Add([]byte{0xe3, 0xfe, 0xe2, 0xfc, 0xeb, 0xfa, 0x0f, 0x84, 0xf4, 0xff, 0xff, 0xff}, byte(6), byte(1), uint32(9))
	f.Add([]byte{0x48, 0x8d, 0x05, 1, 0, 0, 0, 0xff, 0xd0, 0xff, 0x15, 0, 0, 0, 0, 0xc3}, byte(7), byte(0), uint32(2))
	f.Fuzz(func(t *testing.T, code []byte, first, second byte, bias uint32) {
		const base = 0x401000
		o := &Object{Text: []Segment{{Addr: base, Code: code}}, Bias: uint64(bias) << 20, Absolute: bias%2 == 0}
		at := uint64(base)
		for _, size := range []byte{first, second, 255} {
			n := min(uint64(size), base+uint64(len(code))-at)
			if n == 0 {
				continue
			}
			o.Functions = append(o.Functions, elfscan.Function{Addr: at, Size: n, Source: ledger.SourceEhFrame})
			at += n
		}
		planner := NewSurvey(o, 1).NewPlanner(Options{Threshold: first%2 == 0})
		for i := range o.Functions {
			if p := planner.Plan(i); p.Counted() {
				checkStub(t, o, &p, first%2 == 0)
			} else if p.Reason == ledger.ReasonNone {
				t.Errorf("function %d is not counted for no reason", i)
			}
		}
	})
}

func checkStub(t *testing.T, o *Object, p *Plan, threshold bool) {
	t.Helper()
	at := o.Run(0x100000)
	buf, cold := make([]byte, p.Size), make([]byte, ColdSize)
	c := Count{Counter: 0x80, Cold: cold, ColdAt: at + 0x1000, ColdCommon: at + 0x2000}
	if threshold {
		c.Threshold = 7
	}
	var e Emitter
	stub, err := e.Emit(o, p, buf, at, c)
	if errors.Is(err, x86.ErrReach) {
		return
	}
	if err != nil || int(stub.Len) != len(buf) {
		t.Fatalf("stub of %d bytes, planned %d: %v", stub.Len, p.Size, err)
	}
	entry := uint64(o.Run(p.Start))
	end := len(buf) - literalSize*len(e.rel.literals)
	var in x86.Inst
	for off := 0; off < end; off += int(in.Len) {
		if err := x86.Decode(buf[off:end], &in); err != nil {
			t.Fatalf("offset %d of % x: %v", off, buf, err)
		}
		target := in.BranchTarget(buf[off:], uint64(at)+uint64(off))
		if target > entry && target < entry+windowSize {
			t.Errorf("offset %d of % x leads into its own window", off, buf)
		}
	}
}
