package exporter

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
)

// Options of an endpoint. The zero value means the defaults.
type Options struct {
	Top     int   // functions with a series of their own, for each program
	Mangled bool  // leave C++ and Rust names as they are in the ELF file
	Series  *Kept // where series are remembered; nil: nowhere. For NewHost
}

// Bounds of what an endpoint keeps.
const (
	maxSeries = 200_000   // in all views of all programs
	maxViews  = 32        // different queries whose series it remembers
	viewAge   = time.Hour // one that nobody has asked for so long makes room
)

var (
	errViews = fmt.Errorf("too many different queries: the series of %d are kept, for an hour after the last scrape", maxViews)
	errNone  = errors.New("no such program")
	errWhich = errors.New("which program? say ?pid=PID: /sd lists them")
)

// source lists the programs to read.
type source interface {
	// programs returns those that there are now, and adds what it has to tell of
	// itself. Only while the endpoint is locked.
	programs(f *families) ([]*program, error)
	many() bool // several programs, with labels that tell them apart
	close()
}

// Endpoint answers scrapes: one at a time reads the tables.
type Endpoint struct {
	src    source
	top    int
	most   int // series that it keeps
	memory *Kept
	turn   turns

	answered answered
	mu       sync.Mutex
	families *families
	reading  table.Reading
	views    map[string]time.Time // last asked for
	now      func() time.Time
}

func newEndpoint(src source, opt Options) *Endpoint {
	if opt.Top <= 0 {
		opt.Top = DefaultTop
	}
	return &Endpoint{src: src, top: opt.Top, most: maxSeries, memory: opt.Series, families: newFamilies(), views: map[string]time.Time{}, now: time.Now}
}

// Close closes the tables.
func (e *Endpoint) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.src.close()
}

// AnsweredSince reports whether a scrape that was asked for since then has been answered
// with metrics, in the time that its client has patience. (One that was asked for before,
// and is answered since, may have older counts.)
func (e *Endpoint) AnsweredSince(then time.Time) bool {
	e.answered.Lock()
	defer e.answered.Unlock()
	return !e.answered.last.Before(then)
}

// answered is when the last scrape was asked for that has been answered.
type answered struct {
	sync.Mutex
	last time.Time
}

func (a *answered) note(asked time.Time) {
	a.Lock()
	defer a.Unlock()
	if asked.After(a.last) {
		a.last = asked
	}
}

// Counting reports whether some process counts into a table of the endpoint.
// (Of one program it is exact even then when a process has no row: the kernel is
// asked who has the file mapped, which works through the one descriptor that
// there is for it.)
func (e *Endpoint) Counting() (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	programs, err := e.src.programs(e.families)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(programs, func(p *program) bool { return alive.CountsInto(p.meter.File()) }), nil
}

// gather reads the tables and hands the metrics to use, which must not keep
// them.
func (e *Endpoint) gather(q *query, use func([]*dto.MetricFamily) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	begin := e.now()
	f := e.families
	f.begin()
	programs, err := e.src.programs(f)
	if err != nil {
		return err
	}
	if err := e.remember(q.key, programs); err != nil {
		return err
	}
	room := e.most
	for _, p := range programs {
		room -= p.count()
	}
	served, unreadable := 0, 0
	for _, p := range programs {
		if q.pid != "" && (len(p.own) < 2 || *p.own[1].Value != q.pid) {
			continue
		}
		made, err := p.read(f, q, &e.reading, max(0, room))
		switch room -= made; {
		case err == nil:
			served++
		case !e.src.many():
			return err
		default:
			unreadable++
		}
	}
	if q.pid != "" && served+unreadable == 0 {
		return fmt.Errorf("pid %q: %w", q.pid, errNone)
	}
	if e.src.many() {
		*f.served.Gauge.Value += float64(served)
		*f.unreadable.Gauge.Value += float64(unreadable)
	}
	e.memory.save(programs) // before anybody sees them
	f.finish(e.now().Sub(begin))
	return use(f.all())
}

// remember keeps the view, in the place of one that nobody has asked for in a
// long time.
func (e *Endpoint) remember(key string, programs []*program) error {
	now := e.now()
	if _, ok := e.views[key]; !ok && len(e.views) >= maxViews {
		oldest := key
		for k, last := range e.views {
			if now.Sub(last) > viewAge && (oldest == key || last.Before(e.views[oldest])) {
				oldest = k
			}
		}
		if oldest == key {
			return errViews
		}
		delete(e.views, oldest)
		for _, p := range programs {
			p.forget(oldest)
		}
	}
	e.views[key] = now
	return nil
}

// write writes the metrics of q in a format.
func (e *Endpoint) write(w io.Writer, q *query, format expfmt.Format) error {
	return e.gather(q, func(all []*dto.MetricFamily) error { return encode(w, all, format) })
}

// encode writes the families that have metrics.
func encode(w io.Writer, all []*dto.MetricFamily, format expfmt.Format) error {
	enc := expfmt.NewEncoder(w, format)
	for _, f := range all {
		if len(f.Metric) == 0 {
			continue
		}
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	if c, ok := enc.(expfmt.Closer); ok {
		return c.Close() // OpenMetrics ends with # EOF
	}
	return nil
}

// single is the source of one program's table.
type single struct {
	path string
	opt  Options
	p    *program
}

// NewProgram returns the endpoint of the program that counts into the table at
// path.
func NewProgram(path string, opt Options) *Endpoint {
	return newEndpoint(&single{path: path, opt: opt}, opt)
}

func (s *single) many() bool { return false }

func (s *single) programs(*families) ([]*program, error) {
	if s.p == nil {
		m, err := table.OpenMeter(s.path)
		if err != nil {
			return nil, err
		}
		s.p = newProgram(m, s.opt)
	}
	return []*program{s.p}, nil
}

func (s *single) close() {
	if s.p != nil {
		s.p.close()
		s.p = nil
	}
}
