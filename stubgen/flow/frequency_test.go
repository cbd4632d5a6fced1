package flow

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestGuess: how often the first conditional jump of a function is taken, by guess, is what its
// name says, and so is how often what it leads to runs.
func TestGuess(t *testing.T) {
	o, p := load(t, fixture.Link(t, "testdata/guess.s"))
	const never, even = 0.02, 0.05 // at most
	is := map[string]func(share float64) bool{
		"rarely": func(share float64) bool { return share < never },
		"less":   func(share float64) bool { return share > never && share < 0.5-even },
		"even":   func(share float64) bool { return share >= 0.5-even && share <= 0.5+even },
		"more":   func(share float64) bool { return share > 0.5+even && share < 1-never },
		"always": func(share float64) bool { return share > 1-never },
	}
	asked := 0
	for i := range p.Units() {
		name := o.Functions[p.Units()[i].Function].Name
		wanted := is[name[strings.LastIndexByte(name, '_')+1:]]
		if wanted == nil {
			continue
		}
		asked++
		g, why := p.Graph(i)
		if g == nil {
			t.Errorf("%s: %s", name, why)
			continue
		}
		s := g.Guess(g.Loops())
		for k := range g.Blocks {
			if last := g.Last(&g.Blocks[k]); last.Kind == x86.Jcc {
				to := int32(g.BlockOf(int32(g.Target(last))))
				if share := s.Share(int32(k), to); !wanted(share) {
					t.Errorf("%s: %.3f", name, share)
				}
				break
			}
		}
	}
	if asked < 32 {
		t.Errorf("%d functions", asked)
	}
}

// TestFrequency: what comes to a block leaves it, and a loop goes round.
func TestFrequency(t *testing.T) {
	o, p := load(t, fixture.Link(t, "testdata/guess.s"))
	for i := range p.Units() {
		g, _ := p.Graph(i)
		if g == nil {
			continue
		}
		name, nest := o.Functions[p.Units()[i].Function].Name, g.Loops()
		often, left := g.Guess(nest).Frequency(), 0.0
		for k := range g.Blocks {
			if len(g.Blocks[k].Succs) == 0 {
				left += often[k]
			}
		}
		if len(nest.Loops) == 0 && (left < 0.999 || left > 1.001) {
			t.Errorf("%s is left %.3f times", name, left)
		}
		for _, l := range nest.Loops {
			if often[l.Header] < 2 {
				t.Errorf("%s goes round %.3f times", name, often[l.Header])
			}
		}
	}
}
