// Package record takes the accesses that a program records while it runs, and writes them beside
// its table (docs/regions.md).
package record

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/regions"
)

const (
	soon   = 100 * time.Microsecond // behind records
	latest = 2 * time.Millisecond   // while there are none,
	rarely = 50 * time.Millisecond  // and when the process has become another
	fresh  = time.Second            // how old what is told of the rest may be
)

// Recorder takes what is in a ring.
type Recorder struct {
	ring   *regions.Ring
	log    *regions.Log
	tables func() []*find.Entry // of the run, so far
	stop   chan struct{}
	once   sync.Once
	done   chan struct{}
	left   atomic.Bool // the process has gone on as another program
	window Window
	begun  time.Time

	mu    sync.Mutex
	audit Audit
}

// Audit is who compares what is recorded with what he sees by himself.
type Audit interface {
	// Recorded is told of records, as the ring has them, 16 bytes each; they are not its own.
	Recorded(records []byte)
	// Result is what has come of it, once there is no more.
	Result() *regions.Audit
}

// Window is when accesses are recorded, from the start of the first program on.
type Window struct {
	After time.Duration
	For   time.Duration // 0: to the end
}

// Start begins to take. The times of the window count from begun on, when the first program was started.
// Whatever fails, the program runs.
func Start(ring *regions.Ring, window Window, begun time.Time, tables func() []*find.Entry) *Recorder {
	r := &Recorder{ring: ring, log: regions.NewLog(ring), tables: tables, stop: make(chan struct{}), done: make(chan struct{}), window: window, begun: begun}
	go r.run()
	return r
}

// Compare has an audit told of all that is recorded; at the start only.
func (r *Recorder) Compare(a Audit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.audit = a
}

// Take takes all that there is.
func (r *Recorder) Take() (some bool) {
	for r.takeSome(1) {
		some = true
	}
	return some
}

// takeSome takes records, if there are so many or more.
func (r *Recorder) takeSome(least uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ring.Has(least) {
		return false
	}
	r.open()
	records := r.log.Take()
	if r.audit != nil {
		r.audit.Recorded(records)
	}
	return true
}

// Leave says that the process has gone on as another program: records are of children that were
// forked before.
func (r *Recorder) Leave() { r.left.Store(true) }

// Watch tells the number of the program, which runs.
func (r *Recorder) Watch(int) {}

// refresh writes down what has changed, now and then.
func (r *Recorder) refresh(last, now time.Time) time.Time {
	if now.Sub(last) < fresh {
		return last
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Refresh()
	return now
}

// turn says whether it is the time to record, when that has changed.
func (r *Recorder) turn(now time.Time) {
	w := &r.window
	if w.After > 0 && now.Sub(r.begun) >= w.After {
		r.begun, w.After = r.begun.Add(w.After), 0
		r.ring.Time(true)
	}
	if w.After == 0 && w.For > 0 && now.Sub(r.begun) >= w.For {
		w.For = 0
		r.ring.Time(false)
	}
}

// run takes records until that is stopped, and what is there then. It lets many come first, if
// they come soon: the line of memory to which the next is written goes from CPU to CPU with each
// look at it.
func (r *Recorder) run() {
	defer close(r.done)
	const many = regions.MostTaken
	last := time.Now()
	for wait, least, ended := latest, uint64(1), false; ; {
		r.ring.Beat()
		now := time.Now()
		r.turn(now)
		last = r.refresh(last, now)
		if r.takeSome(least) {
			wait, least = soon, many
			if ended {
				least = 1
			}
			continue
		}
		if ended {
			return
		}
		select {
		case <-r.stop:
			ended = true
		default:
			moment := syscall.NsecToTimespec(int64(wait)) // by the runtime's own timers it would be a millisecond
			syscall.Nanosleep(&moment, nil)
			wait = min(2*wait, r.longest())
		}
		least = 1
	}
}

// longest is how long it waits while there are no records.
func (r *Recorder) longest() time.Duration {
	if r.left.Load() {
		return rarely
	}
	return latest
}

// open begins the file when there is a table.
func (r *Recorder) open() {
	if r.log.IsOpen() {
		return
	}
	if of := find.WithNonce(r.tables(), r.ring.Table()); of != nil {
		r.log.Name = func(tid uint32) string {
			if r.left.Load() {
				return "" // its threads are another's
			}
			return procfile.ThreadName(of.Pid, tid)
		}
		r.log.Open(of.Path, of.Nonce)
	}
}

// Stop ends it, when the program has ended.
func (r *Recorder) Stop() {
	r.once.Do(func() { close(r.stop) })
	<-r.done
}

// Write writes all beside a table, whose nonce is given, when it has been stopped.
func (r *Recorder) Write(path string, nonce [16]byte) error {
	if !r.ring.Had() {
		return nil // it said so when the program started
	}
	if r.audit != nil {
		r.log.Audit = r.audit.Result()
	}
	if err := r.log.Close(path, nonce); err != nil {
		return fmt.Errorf("accesses are not all recorded: %w", err)
	}
	return nil
}
