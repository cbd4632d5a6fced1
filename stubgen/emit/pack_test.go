package emit

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Stubs do not overlap, are aligned, lie on as few lines as they may, and take
// little more room than one behind the other.
func TestPacker(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, front := range []int{0, Alignment} {
		type stub struct{ at, size int }
		var all []stub
		p := &Packer{At: 1000}
		sum, sealed := 0, 0
		for i := range 20_000 {
			if i%256 == 0 {
				p.Seal()
				sealed = p.At
			}
			size := 8 + rng.IntN(12)
			if rng.IntN(4) == 0 {
				size = 8 + rng.IntN(150)
			}
			at := p.Place(front, size)
			if at%Alignment != 0 || at-front < sealed || at+size > p.At || spread(at, size) {
				t.Fatalf("a stub of %d bytes at %d, end at %d, sealed at %d", size, at, p.At, sealed)
			}
			all = append(all, stub{at - front, size + front})
			sum += aligned(size + front)
		}
		slices.SortFunc(all, func(a, b stub) int { return a.at - b.at })
		for i := 1; i < len(all); i++ {
			if all[i-1].at+all[i-1].size > all[i].at {
				t.Fatalf("%v and %v overlap", all[i-1], all[i])
			}
		}
		if p.At-1000 > sum*115/100 {
			t.Errorf("front %d: %d bytes, one behind the other %d", front, p.At-1000, sum)
		}
	}
}
