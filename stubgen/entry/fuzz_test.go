package entry

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// FuzzPlan plans and emits functions of arbitrary bytes: nothing may panic,
// every stub has its planned size and consists of instructions, and none of its
// branches leads between the overwritten bytes of its entry.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0x5d, 0xc3}, byte(11), byte(0), uint32(0))
	f.Add([]byte{0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0xcf, 0x75, 0xf8, 0xc3, 0x90, 0x90, 0x90}, byte(9), byte(3), uint32(1))
	f.Add([]byte{0xe3, 0xfe, 0xe2, 0xfc, 0xeb, 0xfa, 0x0f, 0x84, 0xf4, 0xff, 0xff, 0xff}, byte(6), byte(1), uint32(9))
	f.Add([]byte{0x48, 0x8d, 0x05, 1, 0, 0, 0, 0xff, 0xd0, 0xff, 0x15, 0, 0, 0, 0, 0xc3}, byte(7), byte(0), uint32(2))
	f.Add(crowded(), byte(80), byte(80), uint32(2))
	f.Fuzz(func(t *testing.T, code []byte, first, second byte, bias uint32) {
		const base = 0x401000
		o := &stubgen.Object{Text: []stubgen.Segment{{Addr: base, Code: code}}, Bias: uint64(bias) << 20, Absolute: bias%2 == 0}
		at := uint64(base)
		for _, size := range []byte{first, second, 255} {
			n := min(uint64(size), base+uint64(len(code))-at)
			if n == 0 {
				continue
			}
			o.Functions = append(o.Functions, elfscan.Function{Addr: at, Size: n, Source: ledger.SourceEhFrame})
			at += n
		}
		s := survey.New(o, 1)
		opt := Options{Threshold: first%2 == 0, Shared: first%4 < 2, Traps: second%4 < 2}
		plans := Plans(s, opt, 1, nil)
		written := checkWritten(t, s, plans)
		for i := range plans {
			if p := &plans[i]; p.Counted() {
				checkStub(t, o, p, opt, written)
			} else if p.Reason == ledger.ReasonNone {
				t.Errorf("function %d is not counted for no reason", i)
			}
		}
	})
}

// crowded is three times a function of 80 bytes, without padding, whose short
// loops lead to its entry: neighbours must make room.
func crowded() []byte {
	body := "4883ec18 e800100000 e800100000 e800100000 e800100000 e800100000 b803000000 b903000000 48ffcf 75d4" +
		"e800100000 78cd b803000000 b903000000 4883c418 e800100000 e800100000 48ffcf eb00"
	one, err := hex.DecodeString(strings.ReplaceAll(body, " ", ""))
	if err != nil {
		panic(err)
	}
	return bytes.Repeat(one, 3)
}

// checkWritten returns the bytes that the patches of plans overwrite, and
// whether a branch there would find half an instruction: not at the first of
// each patch. (No code branches into the displacement of another branch, so
// that is not looked at.) No two patches overlap.
func checkWritten(t *testing.T, s *survey.Survey, plans []Plan) map[uint64]bool {
	t.Helper()
	written, dead := map[uint64]bool{}, map[uint64]bool{}
	write := func(from uint64, size int) {
		for k := range size {
			at := from + uint64(k)
			if _, twice := written[at]; twice {
				t.Errorf("two patches at %#x", at)
			}
			written[at] = k > 0
		}
	}
	displacement := func(l Lead, size int) {
		for at := l.Addr + uint64(int(l.Len)-size); at < l.Addr+uint64(l.Len); at++ {
			write(at, 1)
		}
	}
	for i := range plans {
		p := &plans[i]
		switch {
		case !p.Counted():
			continue
		case p.Detour != nil && p.Detour.Trap:
			write(p.Start, trapSize)
		case p.Detour != nil && p.Detour.Island != 0:
			write(p.Start, hopSize)
			write(p.Detour.Island, islandSize)
		default:
			write(p.Start, stubgen.WindowSize)
		}
		for _, e := range evictions(p) {
			if e.Trap {
				write(e.Addr, trapSize)
				continue
			}
			write(e.Addr, stubgen.WindowSize)
			for at := e.Addr + 1; at < e.Addr+uint64(e.Len); at++ {
				dead[at] = true
			}
		}
		for _, l := range Leads(s, p) {
			switch {
			case l.Wide:
				write(l.Addr, islandSize)
			case l.Island != 0:
				displacement(l, 1)
				write(l.Island, islandSize)
			default:
				displacement(l, 4)
			}
		}
	}
	checkEvicted(t, s, plans, written, dead)
	return written
}

func evictions(p *Plan) []emit.Eviction {
	if p.Detour == nil {
		return nil
	}
	return p.Detour.Evicted
}

// checkEvicted demands that evicted runs are disjoint, that only their islands
// are written to behind their first bytes, and that no branch of the text leads
// there. It marks their bytes as written.
func checkEvicted(t *testing.T, s *survey.Survey, plans []Plan, written, dead map[uint64]bool) {
	t.Helper()
	runs := map[uint64]bool{}
	for i := range plans {
		p := &plans[i]
		if n := len(evictions(p)); (n > 0) != (p.Tactic == ledger.TacticEvict) && p.Tactic != ledger.TacticTrap {
			t.Errorf("tactic %v with %d evictions", p.Tactic, n)
		}
		traps := p.Detour != nil && p.Detour.Trap
		for _, e := range evictions(p) {
			if traps = traps || e.Trap; e.Trap {
				continue
			}
			for at := e.Addr; at < e.Addr+uint64(e.Len); at++ {
				if _, twice := runs[at]; twice {
					t.Errorf("two evictions at %#x", at)
				}
				runs[at] = true
			}
			room := uint64(evictSize)
			if e.To != 0 {
				room = stubgen.WindowSize
			}
			for at := e.Addr + room; at < e.Addr+uint64(e.Len); at++ {
				if _, patched := written[at]; patched {
					t.Errorf("a patch at %#x in the eviction at %#x, behind its island", at, e.Addr)
				}
				written[at] = true
			}
		}
		if traps != (p.Tactic == ledger.TacticTrap) {
			t.Errorf("tactic %v, and traps: %v", p.Tactic, traps)
		}
	}
	if len(runs) == 0 {
		return
	}
	for i := range s.Object().Functions {
		f := &s.Object().Functions[i]
		code := s.Object().Body(i)
		var in x86.Inst
		for at := 0; at < len(code); at += int(in.Len) {
			if x86.Decode(code[at:], &in) != nil {
				in.Len = 1
				continue
			}
			pc := f.Addr + uint64(at)
			if to := in.BranchTarget(code[at:], pc); dead[to] && !plans[i].Holds(pc) {
				t.Errorf("the branch at %#x leads to %#x, in an eviction", pc, to)
			}
		}
	}
}

func checkStub(t *testing.T, o *stubgen.Object, p *Plan, opt Options, written map[uint64]bool) {
	t.Helper()
	at := o.Run(0x100000)
	buf, cold := make([]byte, p.Size), make([]byte, emit.ColdSize)
	c := emit.Count{Counter: 0x80, Cold: cold, ColdAt: at + 0x1000, ColdCommon: at + 0x2000}
	if opt.Threshold {
		c.Threshold = 7
	}
	if opt.Shared {
		c.Shared = at - 0x1000
	}
	var e emit.Emitter
	spec := p.Spec(o)
	stub, err := e.Emit(o, &spec, buf, at, c)
	if errors.Is(err, x86.ErrReach) {
		return
	}
	if err != nil || int(stub.Len) != len(buf) {
		t.Fatalf("stub of %d bytes, planned %d: %v", stub.Len, p.Size, err)
	}
	main := len(buf)
	if all := evictions(p); len(all) > 0 {
		main = int(all[0].Offset)
	}
	end := main - 8*int(p.literals)
	checkCode(t, o, p, buf[:end], at, written)
	checkCode(t, o, p, buf[main:], at.Add(main), written)
}

// checkCode demands that code, a part of p's stub, consists of instructions and
// that none of its branches leads between overwritten bytes.
func checkCode(t *testing.T, o *stubgen.Object, p *Plan, buf []byte, at x86.RunAddr, written map[uint64]bool) {
	t.Helper()
	var in x86.Inst
	for off := 0; off < len(buf); off += int(in.Len) {
		if err := x86.Decode(buf[off:], &in); err != nil {
			t.Fatalf("offset %d of % x: %v", off, buf, err)
		}
		target := in.BranchTarget(buf[off:], uint64(at)+uint64(off))
		if written[target-o.Bias] {
			t.Errorf("%+v: offset %d of % x leads to %#x, between overwritten bytes", *p, off, buf, target-o.Bias)
		}
	}
}
