package entry

import (
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// TestIslands: every island is in reach of the short branch that hops to it, and stands
// in no body that runs: in padding, in an eviction, or in a body that has moved whole,
// its host.
func TestIslands(t *testing.T) {
	o := fixture.Load(t, fixture.Link(t, fixture.Entries))
	s := survey.New(o, 1)
	plans := Plans(s, Options{KnownFaults: true}, 1, nil)
	found := 0
	for i := range plans {
		p := &plans[i]
		if !p.Counted() {
			continue
		}
		for _, l := range AppendIslands(nil, o, p, Leads(s, p)) {
			found++
			// The entry's jump is two bytes, all others are there as they were.
			end := l.From.Add(hopSize)
			if l.From != o.Run(p.Start) {
				var in x86.Inst
				x86.DecodeAgain(o.Code(uint64(l.From)), &in)
				end = l.From.Add(int(in.Len))
			}
			if low, high := reach(uint64(end)); uint64(l.At) < low || uint64(l.At) > high {
				t.Errorf("the island at %#x is out of reach of %#x", l.At, l.From)
			}
			j := o.FunctionAt(uint64(l.At))
			f := &o.Functions[j]
			inside := uint64(l.At) < f.Addr+f.Size
			evicted := slices.ContainsFunc(evictionsOf(plans), func(r [2]uint64) bool { return r[0] < uint64(l.At) && uint64(l.At) < r[1] })
			if inside && !evicted && !slices.Contains(p.Hosts(), int32(j)) {
				t.Errorf("the island at %#x stands in function %d, which is no host of %d", l.At, j, i)
			}
		}
	}
	if found < 4 {
		t.Errorf("%d islands", found)
	}
}

// evictionsOf lists the ranges that give way.
func evictionsOf(plans []Plan) (all [][2]uint64) {
	for i := range plans {
		for _, e := range evictions(&plans[i]) {
			all = append(all, [2]uint64{e.Addr, e.Addr + uint64(e.Len)})
		}
	}
	return all
}
