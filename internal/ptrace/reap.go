package ptrace

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A thread that executes a program waits until the others have ended, and those that are traced
// until their tracer has been told of it; and who would trace another thread of the process
// waits until the program is executed. So while threads are seized another of ours is told.

// reaper is told of the ends of threads, while its process is being stopped.
type reaper struct {
	mu    sync.Mutex
	tids  []int
	ended map[int]bool
	stops chan struct{}
	all   sync.WaitGroup
}

func newReaper() *reaper {
	const often = 20 * time.Millisecond
	r := &reaper{ended: map[int]bool{}, stops: make(chan struct{})}
	r.all.Go(func() {
		tick := time.NewTicker(often)
		defer tick.Stop()
		for {
			select {
			case <-r.stops:
				return
			case <-tick.C:
				r.reap()
			}
		}
	})
	return r
}

func (r *reaper) stop() {
	close(r.stops)
	r.all.Wait()
}

// add adds a thread; not the first of a process, whose end is that of all.
func (r *reaper) add(tid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tids = append(r.tids, tid)
}

func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tid := range r.tids {
		if !r.ended[tid] && ends(tid) {
			r.ended[tid] = true
		}
	}
}

// has reports whether it was told of the end of a thread.
func (r *reaper) has(tid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[tid]
}

// ends reports whether a thread has ended, and has this told but once. A tracer is told of stops,
// too, whatever it asks for (wait_task_stopped in the kernel's exit.c): so it looks first, and those
// stay for who waits for them.
func ends(tid int) bool {
	const exited, killed, dumped = 1, 2, 3 // CLD_*
	var is unix.Siginfo
	if unix.Waitid(unix.P_PID, tid, &is, unix.WEXITED|unix.WNOHANG|unix.WALL|unix.WNOWAIT, nil) != nil || is.Signo == 0 {
		return false
	}
	if is.Code != exited && is.Code != killed && is.Code != dumped {
		return false
	}
	return unix.Waitid(unix.P_PID, tid, &is, unix.WEXITED|unix.WNOHANG|unix.WALL, nil) == nil && is.Signo != 0
}
