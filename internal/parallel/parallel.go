// Package parallel shares index ranges out among goroutines.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Workers is the number of goroutines that Ranges uses for workers = 0.
func Workers(workers int) int {
	if workers <= 0 {
		return runtime.GOMAXPROCS(0)
	}
	return workers
}

// Beat, if it is set, is told of every piece of work that is begun: whoever waits
// for all of it sees that it goes on. Set it before all work.
var Beat func()

// Ranges calls do for runs of up to grain consecutive indexes that together
// cover [0, n), from up to workers goroutines (0: one for each CPU). worker
// numbers the goroutine, from 0. It returns when all calls have.
func Ranges(n, grain, workers int, do func(worker, first, end int)) {
	workers = min(Workers(workers), (n+grain-1)/grain)
	var taken atomic.Int64
	work := func(worker int) {
		for {
			end := int(taken.Add(int64(grain)))
			first := end - grain
			if first >= n {
				return
			}
			if Beat != nil {
				Beat()
			}
			do(worker, first, min(end, n))
		}
	}
	var wg sync.WaitGroup
	for w := 1; w < workers; w++ {
		wg.Go(func() { work(w) })
	}
	work(0)
	wg.Wait()
}
