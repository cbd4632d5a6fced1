// Package exporter turns a count table into Prometheus metrics. Names and
// labels are described in docs/metrics.md.
package exporter

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
)

// DefaultTop is how many functions have a series of their own by default.
const DefaultTop = 50

// promotions bounds the series of one table to this multiple of Top.
const promotions = 4

var (
	callsDesc = prometheus.NewDesc("dynprof_function_calls_total",
		"Calls of the functions called most, counted exactly.", []string{"object", "function", "function_id"}, nil)
	otherDesc = prometheus.NewDesc("dynprof_other_function_calls_total",
		"Calls of all functions that have no series of their own, and calls from before a function had one.", nil, nil)
	functionsDesc = prometheus.NewDesc("dynprof_functions",
		"Functions found in the program, by whether their calls are counted.", []string{"state"}, nil)
	skippedDesc = prometheus.NewDesc("dynprof_functions_skipped",
		"Functions whose calls are not counted, by reason.", []string{"reason"}, nil)
	threadsDesc = prometheus.NewDesc("dynprof_threads",
		"Threads that are being counted.", nil, nil)
	buildDesc = prometheus.NewDesc("dynprof_build_info",
		"Always 1; the version of the library that counts.", []string{"version"}, nil)
)

// Source gives a table and its counts. Functions may be added between two
// reads, never moved or removed.
type Source interface {
	Read() (*table.Table, *table.Snapshot, error)
}

// Options of a Collector. The zero value means the defaults.
type Options struct {
	Top     int  // functions with a series of their own
	Mangled bool // leave C++ and Rust names as they are in the ELF file
}

// Collector makes const metrics from one snapshot for each scrape. A function
// that has a series keeps it; the sum of all series is the exact total.
type Collector struct {
	src Source
	opt Options

	mu     sync.Mutex
	first  bool
	series map[int]*series // by index in Table.Functions
	ids    map[[3]string]bool
}

// series is a function that has a series of its own.
type series struct {
	labels [3]string
	base   uint64 // calls before it had one; they stay among the others
}

// NewCollector returns a collector of src.
func NewCollector(src Source, opt Options) *Collector {
	if opt.Top <= 0 {
		opt.Top = DefaultTop
	}
	return &Collector{src: src, opt: opt, first: true, series: map[int]*series{}, ids: map[[3]string]bool{}}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{callsDesc, otherDesc, functionsDesc, skippedDesc, threadsDesc, buildDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, s, err := c.src.Read()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(callsDesc, err)
		return
	}
	c.promote(t, s)
	c.collectCalls(ch, s)
	collectLedger(ch, t)
	gauge(ch, threadsDesc, float64(s.Threads()))
	gauge(ch, buildDesc, 1, symname.Clean(t.Creator))
}

func (c *Collector) collectCalls(ch chan<- prometheus.Metric, s *table.Snapshot) {
	other := s.Total()
	for i, series := range c.series {
		calls := s.Calls[i] - series.base
		other -= calls
		ch <- prometheus.MustNewConstMetric(callsDesc, prometheus.CounterValue, float64(calls), series.labels[:]...)
	}
	ch <- prometheus.MustNewConstMetric(otherDesc, prometheus.CounterValue, float64(other))
}

// promote gives the functions called most a series. At the first scrape
// nothing was exported yet, so their past counts into it; later it has been
// exported among the others, which must not go down.
func (c *Collector) promote(t *table.Table, s *table.Snapshot) {
	for _, i := range top(s.Calls, c.opt.Top) {
		if c.series[i] != nil || len(c.series) >= promotions*c.opt.Top {
			continue
		}
		f := &t.Functions[i]
		object := t.Objects[f.Object].Path
		new := &series{labels: [3]string{
			symname.Clean(object),
			symname.Display(f.Name, object, f.Address, !c.opt.Mangled),
			"0x" + strconv.FormatUint(f.Address, 16),
		}}
		if c.ids[new.labels] {
			continue // the object was loaded twice: this copy stays among the others
		}
		if !c.first {
			new.base = s.Calls[i]
		}
		c.ids[new.labels] = true
		c.series[i] = new
	}
	c.first = false
}

// top returns the indices of the n largest counts that are not zero.
func top(calls []uint64, n int) []int {
	var all []int
	for i, count := range calls {
		if count > 0 {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(calls[b], calls[a]) })
	return all[:min(n, len(all))]
}

func collectLedger(ch chan<- prometheus.Metric, t *table.Table) {
	counted := 0
	reasons := map[ledger.Reason]int{}
	for i := range t.Functions {
		if f := &t.Functions[i]; f.Counted() {
			counted++
		} else if !f.Reason.Excluded() {
			reasons[f.Reason]++
		}
	}
	uncounted := 0
	for _, r := range ledger.Reasons() {
		if !r.Excluded() {
			gauge(ch, skippedDesc, float64(reasons[r]), r.String())
			uncounted += reasons[r]
		}
	}
	gauge(ch, functionsDesc, float64(counted), "counted")
	gauge(ch, functionsDesc, float64(uncounted), "uncounted")
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
