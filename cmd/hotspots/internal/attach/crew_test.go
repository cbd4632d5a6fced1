package attach

import (
	"sync/atomic"
	"testing"
)

// TestCrew: each is called once, by whoever.
func TestCrew(t *testing.T) {
	c := newCrew()
	defer c.end()
	for _, crew := range []*crew{c, nil} {
		for _, n := range []int{0, 1, 2, 1000} {
			calls := make([]atomic.Int32, n)
			crew.each(n, func(i int) { calls[i].Add(1) })
			for i := range calls {
				if got := calls[i].Load(); got != 1 {
					t.Errorf("%d of %d was called %d times", i, n, got)
				}
			}
		}
	}
}
