package translate

import (
	"math/bits"
	"os"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// TestScratch measures what docs/probes.md says of registers that a probe could use: of
// accesses that are not by the stack pointer, weighted by how often they run, by guess.
func TestScratch(t *testing.T) {
	for _, path := range lane.Some([]string{"/usr/bin/lua5.4", "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6", "/usr/lib/x86_64-linux-gnu/liblzma.so.5.4.1", "/usr/bin/perl"}, 0, 2) {
		if _, err := os.Stat(path); err != nil {
			t.Logf("not measured: %v", err)
			continue
		}
		var s scratch
		o, p := load(t, path)
		for i := range p.Units() {
			if g, _ := p.Graph(i); g != nil {
				s.add(g, func(in *flow.Inst) []byte { return o.Code(in.Addr)[:in.Len] })
			}
		}
		percent := func(n, of float64) float64 { return 100 * n / of }
		t.Logf("%s: %.1f %% of %.0f functions have a register that they never mention; %.2f accesses an instruction, %.1f %% by rsp; of the others %.1f %% have a dead register, %.1f %% two; flags are live at %.1f %%",
			path, percent(s.unmentioned, s.functions), s.functions, s.accesses/s.instructions, percent(s.stack, s.accesses),
			percent(s.one, s.accesses-s.stack), percent(s.two, s.accesses-s.stack), percent(s.flags, s.accesses-s.stack))
		if s.unmentioned < s.functions*9/10 || s.one < (s.accesses-s.stack)/2 {
			t.Error("fewer than it was designed for")
		}
	}
}

// scratch is that of a program.
type scratch struct {
	functions, unmentioned                  float64
	instructions, accesses, stack, one, two float64
	flags                                   float64
}

const anyRegister = 0xffff &^ (1 << x86.RSP)

func (s *scratch) add(g *flow.Graph, code func(in *flow.Inst) []byte) {
	often := g.Guess(g.Loops()).Frequency()
	var mentioned uint32
	for i := range g.Insts {
		e := g.Insts[i].Effects(code(&g.Insts[i]))
		mentioned |= e.Read.G | e.Written.G
	}
	s.functions++
	if anyRegister&^mentioned != 0 {
		s.unmentioned++
	}
	free, flags := g.DeadRegisters(code), g.LiveFlags()
	for k := range g.Blocks {
		for i := g.Blocks[k].First; i < g.Blocks[k].End; i++ {
			in := &g.Insts[i]
			s.instructions += often[k]
			var ops [x86.MaxOperands]x86.Operand
			for _, o := range ops[:in.Operands(code(in), &ops)] {
				if o.Kind&(x86.OperandLoad|x86.OperandStore) == 0 {
					continue
				}
				s.accesses += often[k]
				if o.Base == x86.RSP {
					s.stack += often[k]
					continue
				}
				dead := bits.OnesCount32(free[i])
				if dead > 0 {
					s.one += often[k]
				}
				if dead > 1 {
					s.two += often[k]
				}
				if flags[i] != 0 {
					s.flags += often[k]
				}
			}
		}
	}
}
