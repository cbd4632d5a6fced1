// Collecting garbage takes that goroutines are preempted in loops without a call, also in
// those that are the whole of a small function.
package main

import (
	"fmt"
	_ "os/user" // for a dynamic program, if there is cgo
	"runtime"
	"sync/atomic"
)

var begun, ends atomic.Int32

//go:noinline
func waits(word *atomic.Int32) (n int) {
	for word.Load() == 0 {
		n++
	}
	return n
}

//go:noinline
func forever() {
	for {
	}
}

func main() {
	through := make(chan int)
	go func() {
		begun.Add(1)
		through <- waits(&ends)
	}()
	go func() {
		begun.Add(1)
		forever()
	}()
	for begun.Load() < 2 {
		runtime.Gosched()
	}
	runtime.GC()
	ends.Store(1)
	fmt.Println(<-through >= 0)
}
