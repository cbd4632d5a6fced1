// Package exporter turns count tables into Prometheus metrics and serves them.
// Names and labels are described in docs/metrics.md.
package exporter

import (
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
)

// families are the metrics of one scrape, in the order in which they are
// written. Metrics are made once and their values set anew.
type families struct {
	build, functions, skipped, hot, threads     *dto.MetricFamily
	calls, other, tables, duration, failures    *dto.MetricFamily
	served, unreadable, duplicate, scrapeSecond *dto.Metric
}

func newFamilies() *families {
	counter, gauge := dto.MetricType_COUNTER, dto.MetricType_GAUGE
	f := &families{
		build:     family("dynprof_build_info", gauge, "Always 1; the version of the library that counts."),
		calls:     family("dynprof_function_calls_total", counter, "Calls of the functions called most, counted exactly."),
		functions: family("dynprof_functions", gauge, "Functions found in the program, by whether their calls are counted."),
		skipped:   family("dynprof_functions_skipped", gauge, "Functions whose calls are not counted, by reason."),
		hot:       family("dynprof_hot_events_total", counter, "Functions that have crossed their call threshold."),
		other:     family("dynprof_other_function_calls_total", counter, "Calls of all functions that have no series of their own, and calls from before a function had one."),
		duration:  family("dynprof_scrape_duration_seconds", gauge, "Time that reading the count tables for this scrape took."),
		tables:    family("dynprof_tables", gauge, "Count tables found, by whether they are served."),
		threads:   family("dynprof_threads", gauge, "Threads that are being counted."),
		failures:  family("dynprof_translator_failures_total", counter, "Times that a translator failed: it crashed, was gone, gave what was refused, or did not start."),

		served: newGauge(pair("state", "served")), unreadable: newGauge(pair("state", "unreadable")),
		duplicate: newGauge(pair("state", "duplicate")), scrapeSecond: newGauge(),
	}
	return f
}

// all are the families in alphabetical order.
func (f *families) all() []*dto.MetricFamily {
	return []*dto.MetricFamily{f.build, f.calls, f.functions, f.skipped, f.hot, f.other, f.duration, f.tables, f.threads, f.failures}
}

// begin empties all families.
func (f *families) begin() {
	for _, m := range f.all() {
		m.Metric = m.Metric[:0]
	}
}

// finish adds what is of the endpoint and of no program.
func (f *families) finish(took time.Duration) {
	set(f.scrapeSecond, took.Seconds())
	add(f.duration, f.scrapeSecond)
}

// tally adds how many tables an endpoint of many programs has.
func (f *families) tally(served, unreadable, duplicate int) {
	set(f.served, float64(served))
	set(f.unreadable, float64(unreadable))
	set(f.duplicate, float64(duplicate))
	add(f.tables, f.served, f.unreadable, f.duplicate)
}

func family(name string, kind dto.MetricType, help string) *dto.MetricFamily {
	return &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
}

func add(f *dto.MetricFamily, metrics ...*dto.Metric) { f.Metric = append(f.Metric, metrics...) }

func newGauge(labels ...*dto.LabelPair) *dto.Metric {
	return &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: new(float64)}}
}

func newCounter(labels ...*dto.LabelPair) *dto.Metric {
	return &dto.Metric{Label: labels, Counter: &dto.Counter{Value: new(float64)}}
}

func set(m *dto.Metric, v float64) {
	if m.Gauge != nil {
		*m.Gauge.Value = v
	} else {
		*m.Counter.Value = v
	}
}

// Names of labels, one string each however many series there are.
var labelName = func() map[string]*string {
	all := map[string]*string{}
	for _, name := range []string{"state", "reason", "version", "object", "function", "function_id", "program", "pid"} {
		all[name] = &name
	}
	return all
}()

func pair(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: labelName[name], Value: &value}
}

// gauges are a program's metrics other than calls.
type gauges struct {
	build, counted, uncounted, hot, threads, other, failures *dto.Metric
	skipped                                                  map[ledger.Reason]*dto.Metric
	reasons                                                  []ledger.Reason // of skipped, in order
}

// newGauges makes them with the labels that every metric of the program has.
func newGauges(creator string, own []*dto.LabelPair) *gauges {
	with := func(labels ...*dto.LabelPair) []*dto.LabelPair { return append(labels, own...) }
	g := &gauges{
		build: newGauge(with(pair("version", symname.Clean(creator)))...), threads: newGauge(own...), hot: newCounter(own...), other: newCounter(own...), failures: newCounter(own...),
		counted: newGauge(with(pair("state", "counted"))...), uncounted: newGauge(with(pair("state", "uncounted"))...),
		skipped: map[ledger.Reason]*dto.Metric{},
	}
	for _, r := range ledger.Reasons() {
		if !r.Excluded() {
			g.skipped[r] = newGauge(with(pair("reason", r.String()))...)
			g.reasons = append(g.reasons, r)
		}
	}
	set(g.build, 1)
	return g
}

// fill adds them to the families, as the table was read.
func (g *gauges) fill(f *families, l *table.Ledger, r *table.Reading) {
	uncounted := 0
	for _, reason := range g.reasons {
		set(g.skipped[reason], float64(l.Skipped[reason]))
		uncounted += l.Skipped[reason]
		add(f.skipped, g.skipped[reason])
	}
	set(g.counted, float64(l.Counted))
	set(g.uncounted, float64(uncounted))
	set(g.threads, float64(r.Threads))
	set(g.hot, float64(r.Events))
	set(g.failures, float64(r.TranslatorFailures))
	add(f.build, g.build)
	add(f.functions, g.counted, g.uncounted)
	add(f.threads, g.threads)
	add(f.hot, g.hot)
	add(f.failures, g.failures)
}
