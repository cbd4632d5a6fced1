package overhead

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Bound{
		"5%": 50, "5": 50, "0.1%": 1, "0.5": 5, "100%": 1000, "99.9%": 999, "100.0%": 1000, "1.0%": 10, "05%": 50,
		"0%": 0, "0.0%": 0, "100.1%": 0, "101%": 0, "-1%": 0, "": 0, "%": 0, "5%%": 0, "0.05%": 0, "5.%": 0, ".5%": 0, "x": 0, "1e1": 0, "+5%": 0, "5.+1": 0, "5 %": 0, "99999999999": 0,
	} {
		got, err := Parse(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v, not %d", text, got, err, want)
		}
		if again, _ := Parse(got.String()); want > 0 && again != got {
			t.Errorf("%q is shown as %v", text, got)
		}
	}
}

const hotCalls = 1000

// program is one of which is known what its functions do.
type program struct {
	functions []Function
	each      []float64 // counts a call
	rate      []float64 // calls in a ns of CPU time
	calls     []uint64
	counts    []uint64
	observed  []uint64
}

// run has the program run for that long, with the blocks of those functions counted, and
// returns what that took.
func (p *program) run(d time.Duration, on []int) (cost float64) {
	for i := range p.functions {
		n := uint64(p.rate[i] * float64(d))
		p.calls[i] += n
		if slices.Contains(on, i) {
			more := uint64(float64(n) * p.each[i])
			p.observed[i] += n
			p.counts[i] += more
			cost += float64(more) * CountCost
		}
	}
	return cost
}

// random makes a program in which counting all blocks of all functions takes that share of
// the CPU time.
func random(r *rand.Rand, functions int, share float64) *program {
	p := &program{}
	sum := 0.0
	for range functions {
		counters := 1 + r.IntN(50)
		p.functions = append(p.functions, Function{Threshold: hotCalls, Counters: counters})
		p.each = append(p.each, float64(counters)*r.ExpFloat64())
		p.rate = append(p.rate, r.ExpFloat64()*r.ExpFloat64())
		sum += p.each[len(p.each)-1] * p.rate[len(p.rate)-1] * CountCost
	}
	for i := range p.rate {
		p.rate[i] *= share / sum
	}
	p.calls, p.counts, p.observed = make([]uint64, functions), make([]uint64, functions), make([]uint64, functions)
	return p
}

// TestWithin: what counting takes is never more than the bound, and what it takes in one
// interval; functions have their turns all the same.
func TestWithin(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		bound, share := Bound(1+r.IntN(300)), r.Float64()*2
		p := random(r, 1+r.IntN(100), share)
		c := New(bound, CountCost)
		c.Add(p.functions)
		var on []int
		most, cost, all := 0.0, 0.0, 0.0
		for range 3000 {
			d := time.Duration(r.IntN(int(50 * time.Millisecond)))
			took := p.run(d, on)
			d += time.Duration(took)
			most, cost, all = max(most, took), cost+took, all+float64(d)
			on = c.Look(d, p.calls, p.counts)
			if allowed := bound.Share()*(c.Time-c.Cost) + most; c.Cost > allowed+1 {
				t.Fatalf("seed %d: counting took %.0f ns of %.0f, with %v no more than %.0f", seed, c.Cost, c.Time, bound, allowed)
			}
		}
		if cost != c.Cost && (c.Cost-cost)/cost > 1e-9 || all != c.Time {
			t.Errorf("seed %d: %.0f ns of %.0f by its own account, not %.0f of %.0f", seed, c.Cost, c.Time, cost, all)
		}
		for i := range p.calls {
			switch {
			case p.calls[i] < hotCalls && p.observed[i] > 0:
				t.Errorf("seed %d: function %d is not hot and was observed", seed, i)
			case p.calls[i] > 10*hotCalls && p.observed[i] == 0 && share < 1:
				t.Errorf("seed %d: function %d of %d was never observed in %d calls, with %v of %.2f", seed, i, len(p.calls), p.calls[i], bound, share)
			}
		}
		if used := Share(c.Cost, c.Time); used < min(bound.Share(), share)/4 {
			t.Errorf("seed %d: only %.4f was used of %v, and %.4f would be all", seed, used, bound, share)
		}
	}
}

// TestAll: where the bound is wide enough all calls are observed from the first turn on.
func TestAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	p := random(r, 40, 0.02)
	c := New(100, CountCost)
	c.Add(p.functions)
	var on []int
	for range 100 {
		d := 20 * time.Millisecond
		took := p.run(d, on)
		on = c.Look(d+time.Duration(took), p.calls, p.counts)
	}
	hot := 0
	for i := range p.calls {
		if p.calls[i] >= hotCalls {
			hot++
		}
	}
	if len(on) != hot {
		t.Errorf("%d of %d hot functions are observed", len(on), hot)
	}
}

// TestTurns: of functions that take the same each is observed as often, and one that alone
// takes more than can be saved has its turns, too.
func TestTurns(t *testing.T) {
	const n = 10
	p := &program{}
	for range n {
		p.functions = append(p.functions, Function{Threshold: 1, Counters: 5})
		p.each, p.rate = append(p.each, 5), append(p.rate, 0.01)
	}
	p.functions = append(p.functions, Function{Threshold: 1, Counters: 10})
	p.each, p.rate = append(p.each, 1000), append(p.rate, 0.005)
	p.calls, p.counts, p.observed = make([]uint64, n+1), make([]uint64, n+1), make([]uint64, n+1)
	c := New(10, CountCost)
	c.Add(p.functions)
	var on []int
	for range 20000 {
		d := 20 * time.Millisecond
		took := p.run(d, on)
		on = c.Look(d+time.Duration(took), p.calls, p.counts)
	}
	if least, most := slices.Min(p.observed[:n]), slices.Max(p.observed[:n]); least == 0 || most > 2*least {
		t.Errorf("observed calls: %v", p.observed)
	}
	if p.observed[n] == 0 {
		t.Error("the one that takes most was never observed")
	}
}

// TestNever: functions without a threshold are not observed, nor is anything where no CPU
// time is seen.
func TestNever(t *testing.T) {
	p := &program{functions: []Function{{Threshold: 0, Counters: 1}, {Threshold: 1, Counters: 1}}, each: []float64{1, 1}, rate: []float64{0.01, 0.01},
		calls: make([]uint64, 2), counts: make([]uint64, 2), observed: make([]uint64, 2)}
	c := New(MostBound, CountCost)
	c.Add(p.functions)
	for range 10 {
		p.run(time.Millisecond, nil)
		if on := c.Look(0, p.calls, p.counts); len(on) > 0 {
			t.Errorf("%v are observed", on)
		}
	}
	for range 10 {
		p.run(time.Millisecond, nil)
		if on := c.Look(time.Millisecond, p.calls, p.counts); !slices.Equal(on, []int{1}) {
			t.Errorf("%v are observed", on)
		}
	}
}
