// Package selftime finds out which functions a program spends its CPU time in, and writes
// that beside its count tables (docs/time.md): it samples from outside (package perf), and
// tells what of the program the code is that a sample was taken in.
package selftime

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/perf"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/sampling"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/symbols"
	"github.com/dynprof/dynprof/internal/table/find"
)

// Sampler samples a program until it is stopped.
type Sampler struct {
	events    *perf.Events
	collector *sampling.Collector
	files     files
	newCPUs   int

	stop, stopped chan struct{}
	memories      map[owner]*symbols.Process
	settled       uint64              // records from before are all there
	found         bool                // there were some when the rings were read last
	written       map[[16]byte]uint64 // samples of tables whose times have been written

	sync.Mutex
	tables func() []*find.Entry // that the program has made so far; nil: not known yet
}

// owner is whose memory is looked at: a process of an image.
type owner struct {
	pid   uint32
	image *sampling.Image
}

const (
	// pause is how long rings fill until they are read, a tenth of what they hold, and idle how
	// long while there is nothing in them.
	pause, idle = 100 * time.Millisecond, 300 * time.Millisecond
	// often is when times are written while the program runs, for those who watch it,
	often = 2 * time.Second
	// and part is how much of the time that takes at most: one in so many.
	part = 50
)

// Start samples the program that the caller is going to execute on this thread, to which he
// is locked until then, so many times a second of CPU time. The error says how to allow it.
func Start(hertz int) (*Sampler, error) {
	events, err := perf.Open(hertz)
	if err != nil {
		return nil, err
	}
	s := &Sampler{
		events: events, collector: sampling.NewCollector(), files: files{}, memories: map[owner]*symbols.Process{},
		written: map[[16]byte]uint64{}, stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go s.run()
	return s, nil
}

// Watch has the times written now and then, beside the tables that there are.
func (s *Sampler) Watch(tables func() []*find.Entry) {
	s.Lock()
	defer s.Unlock()
	s.tables = tables
}

// run reads samples until that is stopped. Whatever fails, the program runs.
func (s *Sampler) run() {
	defer close(s.stopped)
	next := time.Now().Add(often)
	for {
		wait := idle
		if s.found {
			wait = pause
		}
		select {
		case <-s.stop:
			s.read()
			s.settle(math.MaxUint64)
			return
		case <-time.After(wait):
		}
		before := s.settled
		s.read()
		s.settle(before)
		if began := time.Now(); began.After(next) {
			s.writeLive()
			next = time.Now().Add(max(often, part*time.Since(began)))
		}
	}
}

// read reads what is in the rings.
func (s *Sampler) read() {
	s.settled, s.found = perf.Now(), false
	s.events.Read(func(r *sampling.Record) {
		s.collector.Add(r)
		s.found = true
	})
}

// settle uses what is from before that moment, and looks at what is new in it, while its
// process is there.
func (s *Sampler) settle(before uint64) {
	fresh := s.collector.Settle(before)
	refreshed := map[owner]bool{}
	for _, n := range fresh {
		s.look(n, refreshed)
	}
	const most = 16 // descriptors
	for who, m := range s.memories {
		if len(s.memories) <= most {
			break
		}
		m.Close()
		delete(s.memories, who)
	}
}

// look finds out what an address stands for that was not seen before. Which arenas a process
// has is read again if it is in none, at most once for all of them.
func (s *Sampler) look(n sampling.New, refreshed map[owner]bool) {
	who := owner{n.Pid, n.Image}
	m := s.memories[who]
	if m == nil {
		var err error
		if m, err = symbols.OpenProcess(n.Pid); err != nil {
			return // it has ended: the table tells of its stubs
		}
		s.memories[who] = m
	}
	origin, own := m.Origin(n.Address)
	if origin == 0 && !own && !refreshed[who] {
		refreshed[who] = true
		if m.Refresh(n.Pid) != nil {
			m.Close()
			delete(s.memories, who)
			return
		}
		origin, own = m.Origin(n.Address)
	}
	n.Spot.Own, n.Spot.Looked = own, true
	if origin != 0 {
		s.collector.Found(n, origin)
	}
}

// Stop ends the sampling.
func (s *Sampler) Stop() {
	close(s.stop)
	<-s.stopped
	s.newCPUs = s.events.Came()
	s.events.Close()
	for _, m := range s.memories {
		m.Close()
	}
	s.memories = nil
}

// writeLive writes what is known so far.
func (s *Sampler) writeLive() {
	s.Lock()
	tables := s.tables
	s.Unlock()
	if tables != nil {
		s.write(tables(), false) // an error is told at the end, if it is still there
	}
}

// Write writes the times beside the tables, when it has been stopped. All that of the run is
// among them.
func (s *Sampler) Write(tables []*find.Entry) error { return s.write(tables, true) }

func (s *Sampler) write(tables []*find.Entry, ended bool) (err error) {
	for e, images := range share(s.collector.Images, tables) {
		n := images.samples()
		if before, has := s.written[e.Nonce]; has && before == n && !ended { // its program has ended, or waits
			continue
		}
		s.written[e.Nonce] = n
		err = errors.Join(err, s.writeTable(e, images, ended))
	}
	return err
}

// samples is how many there are.
func (i *images) samples() (n uint64) {
	for _, image := range append([]*sampling.Image{i.counted}, i.others...) {
		n += image.Kernel + image.Planner
		for _, spot := range image.Spots {
			n += spot.Samples
		}
	}
	return n
}

// images are those whose time goes with a table.
type images struct {
	counted *sampling.Image
	others  []*sampling.Image // that its program has executed, and that have no table
}

// share finds out which image each table is of. What has none goes with the table of the
// nearest that it was executed by.
func share(all []*sampling.Image, tables []*find.Entry) map[*find.Entry]*images {
	of, byPid := map[*sampling.Image]*find.Entry{}, map[uint32][]*sampling.Image{}
	for _, i := range all {
		byPid[i.Pid] = append(byPid[i.Pid], i)
	}
	for _, e := range tables {
		if i := imageOf(byPid[e.Pid], e); i != nil {
			of[i] = e
		}
	}
	shared := map[*find.Entry]*images{}
	for _, i := range all {
		if e := of[i]; e != nil {
			shared[e] = &images{counted: i}
		}
	}
	for _, i := range all {
		for by := i; by != nil; by = by.Parent {
			if e := of[by]; e != nil {
				if by != i {
					shared[e].others = append(shared[e].others, i)
				}
				break
			}
		}
	}
	return shared
}

// imageOf is the image that a table is of: the last of those that its process executed from
// before the table was made.
func imageOf(all []*sampling.Image, e *find.Entry) (found *sampling.Image) {
	for _, i := range all {
		if i.Began <= e.Monotonic && (found == nil || i.Began > found.Began) {
			found = i
		}
	}
	return found
}
