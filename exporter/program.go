package exporter

import (
	"fmt"
	"strconv"

	dto "github.com/prometheus/client_model/go"

	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// promotions bounds the series of one program in one view to this multiple of
// top.
const promotions = 4

// program is one count table as it is exported.
type program struct {
	meter   *table.Meter
	own     []*dto.LabelPair // program and pid, where one endpoint serves many
	gauges  *gauges
	objects map[string]*dto.LabelPair
	labels  map[uint32]*[3]*dto.LabelPair // of a function, by counter
	views   map[string]*shown             // by query.key
	memory  *Kept                         // nil: series are not remembered
	mangled bool
}

// shown are the series of one view of a program. A function that has a series
// keeps it.
type shown struct {
	begun      bool
	series     map[uint32]*series // by counter
	order      []*series
	seen       map[[3]string]bool // labels
	matches    map[uint32]bool    // counters that the query chooses; nil: all
	generation uint32             // of matches
}

// series is a function that has a series of its own.
type series struct {
	keptSeries
	metric *dto.Metric
}

func newShown() *shown {
	return &shown{series: map[uint32]*series{}, seen: map[[3]string]bool{}}
}

// add adds a series, unless there is one with these labels: where an object was
// loaded twice, the other copy stays among the others.
func (v *shown) add(k keptSeries, labels *[3]*dto.LabelPair, own []*dto.LabelPair) bool {
	key := [3]string{*labels[0].Value, *labels[1].Value, *labels[2].Value}
	if v.seen[key] {
		return false
	}
	s := &series{k, newCounter(append(labels[:3:3], own...)...)}
	v.seen[key], v.series[k.counter], v.order = true, s, append(v.order, s)
	return true
}

// kept are the series from the i-th on, as they are remembered.
func (v *shown) kept(i int) (all []keptSeries) {
	for _, s := range v.order[i:] {
		all = append(all, s.keptSeries)
	}
	return all
}

func newProgram(m *table.Meter, opt Options, own ...*dto.LabelPair) *program {
	return &program{
		meter: m, own: own, mangled: opt.Mangled, memory: opt.Series, gauges: newGauges(m.Creator, own),
		objects: map[string]*dto.LabelPair{}, labels: map[uint32]*[3]*dto.LabelPair{}, views: map[string]*shown{},
	}
}

// read reads the table and adds its metrics to f. room is how many series more
// there may be; it returns how many it made.
func (p *program) read(f *families, q *query, r *table.Reading, room int) (made int, err error) {
	if err := p.meter.Read(r); err != nil {
		return 0, err
	}
	v := p.views[q.key]
	if v == nil {
		if v, err = p.restore(q, r, room); err != nil {
			return 0, err
		}
		p.views[q.key] = v
		made = len(v.order)
	}
	had := len(v.order)
	if err := p.promote(v, q, r, room-made); err != nil {
		return made, err
	}
	if len(v.order) > had {
		p.memory.note(p.meter.Nonce, q.key, v.kept(had))
		made += len(v.order) - had
	}
	other := r.Total
	for _, s := range v.order {
		if int(s.counter) >= len(r.Calls) || r.Calls[s.counter] < s.base {
			return made, fmt.Errorf("%s: %w: counters have gone back", p.meter.Path(), layout.ErrCorrupt)
		}
		calls := r.Calls[s.counter] - s.base
		other -= calls
		set(s.metric, float64(calls))
		add(f.calls, s.metric)
	}
	set(p.gauges.other, float64(other))
	add(f.other, p.gauges.other)
	p.gauges.fill(f, &p.meter.Ledger, r)
	return made, nil
}

// restore returns a new view, with the series that it had when the table was
// served before.
func (p *program) restore(q *query, r *table.Reading, room int) (*shown, error) {
	v := newShown()
	kept := p.memory.of(p.meter.Nonce, q.key)
	var counters []uint32
	for _, k := range kept {
		counters = append(counters, k.counter)
	}
	if err := p.name(counters); err != nil {
		return nil, err
	}
	for _, k := range kept {
		fits := int(k.counter) < len(r.Calls) && k.base <= r.Calls[k.counter] && p.labels[k.counter] != nil
		if !fits || !v.add(k, p.labels[k.counter], p.own) || len(v.order) > room {
			p.memory.note(p.meter.Nonce, q.key, nil) // it is of another table, or damaged: begin anew
			v = newShown()
			break
		}
	}
	v.begun = len(v.order) > 0
	p.memory.forget(p.meter.Nonce, q.key)
	return v, nil
}

// promote gives the functions called most a series. At the first scrape nothing
// was exported yet, so their past counts into it; later it has been exported
// among the others, which must not go down.
func (p *program) promote(v *shown, q *query, r *table.Reading, room int) error {
	if len(v.order) >= promotions*q.top {
		return nil
	}
	if err := p.choose(v, q); err != nil {
		return err
	}
	chosen := top(r.Calls, q.top, func(counter uint32) bool { return v.matches == nil || v.matches[counter] })
	if err := p.name(chosen); err != nil {
		return err
	}
	for _, counter := range chosen {
		if v.series[counter] != nil || len(v.order) >= promotions*q.top || room == 0 {
			continue
		}
		labels := p.labels[counter]
		if labels == nil {
			continue // no function has it yet: objects are being added
		}
		s := keptSeries{counter: counter}
		if v.begun {
			s.base = r.Calls[counter]
		}
		if v.add(s, labels, p.own) {
			room--
		}
	}
	v.begun = true
	return nil
}

// choose finds the functions that the query's globs match.
func (p *program) choose(v *shown, q *query) error {
	if q.match == nil || v.matches != nil && v.generation == p.meter.Generation {
		return nil
	}
	matches := map[uint32]bool{}
	err := p.meter.Names(nil, func(n table.Named) bool {
		if q.match.MatchString(symname.Display(n.Name, n.Object, n.Address, !p.mangled)) {
			matches[n.Counter] = true
		}
		return true
	})
	if err == nil {
		v.matches, v.generation = matches, p.meter.Generation
	}
	return err
}

// name makes the labels of the functions that have none.
func (p *program) name(counters []uint32) error {
	missing := map[uint32]bool{}
	for _, c := range counters {
		if p.labels[c] == nil {
			missing[c] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return p.meter.Names(func(c uint32) bool { return missing[c] }, func(n table.Named) bool {
		object := p.objects[n.Object]
		if object == nil {
			object = pair("object", symname.Clean(n.Object))
			p.objects[n.Object] = object
		}
		p.labels[n.Counter] = &[3]*dto.LabelPair{
			object,
			pair("function", symname.Display(n.Name, n.Object, n.Address, !p.mangled)),
			pair("function_id", "0x"+strconv.FormatUint(n.Address, 16)),
		}
		delete(missing, n.Counter)
		return len(missing) > 0
	})
}

// forget drops a view. It returns how many series that had.
func (p *program) forget(key string) int {
	v := p.views[key]
	if v == nil {
		return 0
	}
	delete(p.views, key)
	p.memory.note(p.meter.Nonce, key, nil)
	return len(v.order)
}

// count is how many series there are in all views.
func (p *program) count() (n int) {
	for _, v := range p.views {
		n += len(v.order)
	}
	return n
}

func (p *program) close() { p.meter.Close() }
