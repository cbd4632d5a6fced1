// Package live reads a program's table again and again, for a view of it.
package live

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/top"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Program is a program that is read. Read and Detail may be called at once, each by one
// goroutine.
type Program struct {
	path    string
	mangled bool
	name    func(*table.Table) // names what has no name; may be nil
	others  *Others            // may be nil

	reading  sync.Mutex
	t        *table.Table // changed while changing is held, by who reads
	changing sync.RWMutex
	book     *top.Book
	events   events
	running  bool // when it was opened
	times    lastTimes
	detail   lastDetail
}

// Open opens the table at path. name names what has no name, if it is not nil; others are
// where programs are looked for.
func Open(path string, mangled bool, name func(*table.Table), others *Others) (*Program, error) {
	t, err := table.Open(path)
	if err != nil {
		return nil, err
	}
	if name != nil {
		name(t)
	}
	return &Program{path: path, mangled: mangled, name: name, others: others, t: t, book: bookOf(t, mangled), running: alive.Of(t.File) == alive.Running}, nil
}

func bookOf(t *table.Table, mangled bool) *top.Book {
	return &top.Book{Program: t.Program, Pid: t.Pid, Started: t.Realtime, Functions: t.Functions, Objects: t.Objects, Mangled: mangled}
}

// Close waits for who reads, and releases the table. It is made compact if the program has
// ended meanwhile: who ran it could not, since the table was open here.
func (p *Program) Close() error {
	p.changing.Lock()
	defer p.changing.Unlock()
	return p.close()
}

// Leave is Close at the end of the process, which waits for no details.
func (p *Program) Leave() {
	if p.changing.TryLock() {
		defer p.changing.Unlock()
		p.close()
	}
}

func (p *Program) close() error {
	p.reading.Lock()
	defer p.reading.Unlock()
	err := p.t.Close()
	if p.running && p.t.Ended.Kind != layout.EndedUnknown {
		edit.Compact(p.path) // an error means that it stays as it is: others read it, or there is no room
	}
	return err
}

// Read reads the counts as they are, and those of all programs if programs is set.
func (p *Program) Read(programs bool) (f *top.Frame) {
	p.reading.Lock()
	defer p.reading.Unlock()
	defer func() {
		if bug := recover(); bug != nil { // the terminal is to be given back
			f = &top.Frame{Err: fmt.Errorf("BUG: %v", bug)}
		}
	}()
	f, err := p.read()
	if err != nil {
		return &top.Frame{Time: time.Now(), Err: err}
	}
	if programs && p.others != nil {
		f.Programs = p.others.read(top.Program{Table: p.path, Name: p.t.Program, Pid: p.t.Pid, Threads: f.Counting, Calls: f.Total, Running: f.Running})
	}
	return f
}

func (p *Program) read() (*top.Frame, error) {
	if err := p.checkWhole(); err != nil {
		return nil, err
	}
	status := alive.Of(p.t.File) // before the counts: then these are the last
	s, err := p.t.SinceReset()
	if err != nil {
		return nil, err
	}
	if s.Generation != p.t.Generation && p.reopen() {
		if s, err = p.t.SinceReset(); err != nil {
			return nil, err
		}
	}
	if status != alive.Running {
		p.noteEnd()
	}
	f := &top.Frame{
		Book: p.book, Time: s.Time, Calls: s.Calls, Hot: s.Hot, Total: s.Total(), Counting: s.Threads(),
		Reset: s.Reset, Threshold: p.t.Threshold, Running: status == alive.Running,
	}
	f.State, f.Remarks = report.Brief(p.t, s, status)
	f.Times, f.TotalTime = p.times.read(p.t)
	for _, o := range s.Owners() {
		f.Threads = append(f.Threads, top.Thread{ThreadID: top.ThreadID{Pid: o.Pid, Tid: o.Tid, Incarnation: o.Incarnation}, Calls: o.Calls})
	}
	f.Events, err = p.events.read(p.t)
	return f, err
}

// checkWhole refuses a file that has become shorter, or another.
func (p *Program) checkWhole() error {
	head := make([]byte, layout.HeaderSize)
	if err := p.t.ReadAt(head, 0); err != nil {
		return err
	}
	return p.t.CheckWhole(head, p.t.Nonce)
}

// reopen reads the functions anew: the program has loaded more. It reports whether it did;
// if not, the next reading tries again.
func (p *Program) reopen() bool {
	if !p.changing.TryLock() { // details are being read
		return false
	}
	defer p.changing.Unlock()
	t, err := table.Open(p.path)
	if err != nil {
		return false
	}
	if t.Nonce != p.t.Nonce || len(t.Functions) < len(p.t.Functions) {
		t.Close()
		return false
	}
	if p.name != nil {
		p.name(t)
	}
	p.t.Close()
	p.t, p.book = t, bookOf(t, p.mangled)
	p.events = events{}
	return true
}

// noteEnd finds out how the program ended: who ran it notes that a moment later, maybe in
// another file, which takes the place of the table.
func (p *Program) noteEnd() {
	if p.t.Ended.Kind != layout.EndedUnknown {
		return
	}
	f, err := file.OpenHead(p.path, os.O_RDONLY)
	if err != nil {
		return
	}
	defer f.Close()
	if f.Nonce == p.t.Nonce {
		p.t.Ended = f.Ended
	}
}

// events are those that have been read.
type events struct {
	head uint64
	all  []top.Event
	open bool // a translator is at work on some
}

// read reads the events if there are more, or may be others.
func (e *events) read(t *table.Table) ([]top.Event, error) {
	head, err := t.U64(layout.HdrEventsHead)
	if err != nil || head == e.head && !e.open {
		return e.all, err
	}
	list, err := t.Events()
	if err != nil {
		return nil, err
	}
	all, open := make([]top.Event, len(list)), false
	for i, r := range list {
		all[i] = top.Event{Time: r.Time, Function: r.Function, Calls: r.Calls, Tid: r.Tid, Outcome: r.Outcome.String()}
		open = open || r.Outcome == layout.OutcomeQueued || r.Outcome == layout.OutcomeRunning
	}
	*e = events{head, all, open || uint64(len(all)) < min(head, uint64(t.Geometry.Events.Capacity))}
	return e.all, nil
}
