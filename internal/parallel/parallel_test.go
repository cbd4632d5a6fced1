package parallel

import (
	"sync/atomic"
	"testing"
)

func TestRangesCoverEachIndexOnce(t *testing.T) {
	for _, n := range []int{0, 1, 7, 256, 1000} {
		for _, workers := range []int{0, 1, 3} {
			seen := make([]atomic.Int32, n)
			Ranges(n, 7, workers, func(_, first, end int) {
				for i := first; i < end; i++ {
					seen[i].Add(1)
				}
			})
			for i := range seen {
				if got := seen[i].Load(); got != 1 {
					t.Errorf("n %d, workers %d: index %d visited %d times", n, workers, i, got)
				}
			}
		}
	}
}
