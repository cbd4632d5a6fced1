package web

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/live"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/top"
	"github.com/dynprof/dynprof/internal/table"
)

// program is a table that is read again and again, with what has been read of it. Nothing is
// kept for those who look: each is told what has changed since a reading that it names.
type program struct {
	id     string
	source *live.Program
	name   func(*table.Table) // names what has no name; may be nil

	detail sync.Mutex // held while details are read

	mu      sync.Mutex
	frame   *top.Frame // the last; nil before the first
	failed  error      // of the reading after it
	number  uint32     // of readings
	changed []uint32   // by function: the reading in which its count was another for the last time
	next    time.Time  // when the next reading is
	history history

	ledger ledgerCache

	watch   *watch // of its memory; nil: nobody has watched
	symbols symbols
	blocks  blocks
}

// Readings come every interval, but rest this many times as long as the CPU was at one, and
// ended programs, of which only the end may become known, are read seldom.
const (
	rest   = 20
	seldom = 10
)

// soon is when the second reading comes, so that there are rates to be seen.
const soon = 300 * time.Millisecond

func newProgram(source *live.Program, name func(*table.Table)) *program {
	return &program{id: source.ID(), source: source, name: name}
}

// read reads the table, and says how long to wait until it is to be read again.
func (p *program) read(interval time.Duration) time.Duration {
	f, took := timed(func() *top.Frame { return p.source.Read(false) })
	wait := interval
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = f.Err
	if f.Err == nil {
		if p.frame == nil && f.Running {
			wait = min(wait, soon)
		}
		p.add(f)
		if !f.Running {
			wait *= seldom
		}
	}
	wait = max(wait, rest*took)
	p.next = time.Now().Add(wait)
	return wait
}

// timed is the CPU time that something takes: where the CPUs are busy with other things,
// that is less than goes by.
func timed[T any](do func() T) (T, time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_THREAD, &before)
	v := do()
	syscall.Getrusage(syscall.RUSAGE_THREAD, &after)
	of := func(u *syscall.Rusage) int64 { return u.Utime.Nano() + u.Stime.Nano() }
	return v, time.Duration(of(&after) - of(&before))
}

// add notes a reading.
func (p *program) add(f *top.Frame) {
	p.number++
	was := p.frame
	p.frame = f
	for len(p.changed) < len(f.Calls) {
		p.changed = append(p.changed, p.number)
	}
	if was == nil {
		return
	}
	if !was.Reset.Equal(f.Reset) {
		for i := range p.changed {
			p.changed[i] = p.number
		}
		p.history.forget()
		return
	}
	var list []calls
	for i, n := range f.Calls {
		before := uint64(0)
		if i < len(was.Calls) {
			before = was.Calls[i]
		}
		if n != before {
			p.changed[i] = p.number
			list = append(list, calls{i, n - min(n, before)})
		}
	}
	if was.Running || len(list) > 0 {
		p.history.add(was.Time, f.Time, list)
	}
}

var errNotRead = errors.New("the table has not been read yet: try again")

// last is the last reading.
func (p *program) last() (*top.Frame, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastLocked()
}

func (p *program) lastLocked() (*top.Frame, error) {
	switch {
	case p.frame != nil:
		return p.frame, nil
	case p.failed != nil:
		return nil, p.failed
	}
	return nil, errNotRead
}

// function checks the number of a function.
func (p *program) function(i int) (*top.Frame, error) {
	f, err := p.last()
	if err == nil && (i < 0 || i >= len(f.Calls)) {
		err = fmt.Errorf("function %d: the table has %d, from 0", i, len(f.Calls))
	}
	return f, err
}

// openTable opens the table anew, for what is made of a whole one.
func (p *program) openTable() (*table.Table, error) {
	t, err := table.Open(p.source.Path())
	if err == nil && live.IDOf(&t.Header) != p.id {
		t.Close()
		err = fmt.Errorf("%s is another program's table by now", p.source.Path())
	}
	if err == nil && p.name != nil {
		p.name(t)
	}
	return t, err
}
