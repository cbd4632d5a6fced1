package attach

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// crew are threads of ours beside the one that traces: a process that is stopped waits for what
// is looked at of each of its threads. They are there before it is stopped, as to begin one takes
// as long as much of that, and hurry as that one does.
type crew struct{ jobs chan func() }

// mostHands is how many there are at most: what they read has locks.
const mostHands = 8

// newCrew has one for each CPU, with the thread that calls.
func newCrew() *crew {
	c := &crew{make(chan func())}
	for range min(runtime.GOMAXPROCS(0), mostHands) - 1 {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			defer hurry()()
			for do := range c.jobs {
				do()
			}
		}()
	}
	return c
}

func (c *crew) end() { close(c.jobs) }

// each calls do for 0 to n-1, side by side, and waits until all calls have returned. Without a
// crew they are made one by one. None may be one of ptrace(2).
func (c *crew) each(n int, do func(i int)) {
	var next atomic.Int64
	var left sync.WaitGroup
	left.Add(n)
	work := func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			do(int(i))
			left.Done()
		}
	}
	if c != nil && n > 1 {
		c.call(work)
	}
	work()
	left.Wait() // for what others have begun, not for those who come too late to find something
}

// call has those work who wait for it.
func (c *crew) call(work func()) {
	for range mostHands {
		select {
		case c.jobs <- work:
		default:
			return
		}
	}
}
