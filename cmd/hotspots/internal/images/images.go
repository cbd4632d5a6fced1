// Package images looks at the memory of the programs that run in a process one after the other, as
// each executes the next in its place.
package images

import (
	"errors"
	"sync"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/job"
	"github.com/dynprof/dynprof/internal/table/heat"
)

// Image is who looks at one of them.
type Image interface {
	job.Heat
	// Leave says that the process has gone on as another: only children are left.
	Leave()
}

// Images are all of them.
type Images struct {
	shadows *heat.Shadows
	begin   func(s *heat.Shadow, pid int) Image
	stop    chan struct{}
	once    sync.Once
	done    chan struct{}

	mu   sync.Mutex
	all  []image
	pid  int // 0: not known
	lost error
}

type image struct {
	Image
	shadow *heat.Shadow
}

// Start begins to look at the first, whose shadow is given, and goes on with those that come. begin
// begins with one.
func Start(first *heat.Shadow, begin func(s *heat.Shadow, pid int) Image) *Images {
	i := &Images{shadows: first.Shadows, begin: begin, stop: make(chan struct{}), done: make(chan struct{})}
	i.all = []image{{begin(first, 0), first}}
	go i.run()
	return i
}

// run begins with each that comes, until that is stopped.
func (i *Images) run() {
	const often = 100 * time.Millisecond
	defer close(i.done)
	for {
		taken := i.shadows.Taken()
		i.follow(taken)
		select {
		case <-i.stop:
			i.follow(i.shadows.Taken())
			return
		default:
			i.shadows.Await(taken, often)
		}
	}
}

// follow begins with those that have come, when so many have.
func (i *Images) follow(taken int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n := len(i.all); n < min(taken, heat.Images); n++ {
		i.all[n-1].Leave()
		s, err := i.shadows.Shadow(n)
		if err != nil {
			i.lost = err // it is tried again, as long as there is time
			return
		}
		i.all = append(i.all, image{i.begin(s, i.pid), s})
	}
	i.lost = nil
}

// Watch tells the number of the program, while that runs.
func (i *Images) Watch(pid int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pid = pid
	i.all[len(i.all)-1].Watch(pid)
}

// Stop ends looking for more.
func (i *Images) Stop() {
	i.once.Do(func() { close(i.stop) })
	<-i.done
	for _, one := range i.all {
		one.Stop()
	}
}

// Write writes beside a table, whose nonce is given, what is of it.
func (i *Images) Write(path string, nonce [16]byte) error {
	for _, one := range i.all {
		if one.shadow.Table() == nonce {
			return errors.Join(i.lost, one.Write(path, nonce))
		}
	}
	return i.lost
}
