package exporter

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func demo(t *testing.T, opt Options, spec *table.Spec) (*Collector, *tabletest.Live) {
	t.Helper()
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	src := &File{Path: live.Path}
	t.Cleanup(func() { src.Close() })
	return NewCollector(src, opt), live
}

func TestMetrics(t *testing.T) {
	c, _ := demo(t, Options{}, tabletest.Spec())
	want := `
# HELP dynprof_function_calls_total Calls of the functions called most, counted exactly.
# TYPE dynprof_function_calls_total counter
dynprof_function_calls_total{function="demo+0x1170",function_id="0x1170",object="/opt/demo/demo"} 3
dynprof_function_calls_total{function="demo::add(int, int)",function_id="0x1160",object="/opt/demo/demo"} 1500
dynprof_function_calls_total{function="foo::bar",function_id="0x2000",object="/usr/lib/libdemo.so.1"} 20
dynprof_function_calls_total{function="main",function_id="0x1139",object="/opt/demo/demo"} 700
# HELP dynprof_functions Functions found in the program, by whether their calls are counted.
# TYPE dynprof_functions gauge
dynprof_functions{state="counted"} 4
dynprof_functions{state="uncounted"} 2
# HELP dynprof_other_function_calls_total Calls of all functions that have no series of their own, and calls from before a function had one.
# TYPE dynprof_other_function_calls_total counter
dynprof_other_function_calls_total 0
# HELP dynprof_threads Threads that are being counted.
# TYPE dynprof_threads gauge
dynprof_threads 1
# HELP dynprof_build_info Always 1; the version of the library that counts.
# TYPE dynprof_build_info gauge
dynprof_build_info{version="test"} 1
`
	err := testutil.CollectAndCompare(c, strings.NewReader(want), "dynprof_function_calls_total", "dynprof_functions",
		"dynprof_other_function_calls_total", "dynprof_threads", "dynprof_build_info")
	if err != nil {
		t.Error(err)
	}
	// The reasons of the fixture; the other known ones are there, as 0.
	for metric, least := range map[string]int{"dynprof_functions_skipped": 10} {
		if n := testutil.CollectAndCount(c, metric); n < least {
			t.Errorf("%d of %s", n, metric)
		}
	}
}

func TestLint(t *testing.T) {
	c, _ := demo(t, Options{}, tabletest.Spec())
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// values returns every sample of the two call counters.
func values(t *testing.T, c *Collector) (calls map[string]float64, other float64) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	calls = map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "dynprof_function_calls_total":
				calls[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			case "dynprof_other_function_calls_total":
				other = m.GetCounter().GetValue()
			}
		}
	}
	return calls, other
}

// The order of functions changes from scrape to scrape: no counter goes down,
// no series ends, and the sum is the total.
func TestSeriesAreStickyAndSumToTheTotal(t *testing.T) {
	c, live := demo(t, Options{Top: 1}, tabletest.Spec())
	last, lastOther := map[string]float64{}, 0.0
	for _, counts := range [][]uint64{
		{700, 1000, 3, 0}, {2000, 1000, 3, 0}, {2000, 5000, 9000, 1}, {2001, 5000, 9000, 99999}, {1 << 40, 5000, 9000, 99999},
	} {
		live.Set(0, counts...)
		calls, other := values(t, c)
		sum, total := other, 520.0 // row 1
		for name, v := range calls {
			sum += v
			if v < last[name] {
				t.Errorf("%s went down from %v to %v", name, last[name], v)
			}
		}
		for name := range last {
			if _, ok := calls[name]; !ok {
				t.Errorf("the series of %s ended", name)
			}
		}
		for _, n := range counts {
			total += float64(n)
		}
		if sum != total || other < lastOther {
			t.Errorf("sum %v of %v, others %v after %v", sum, total, other, lastOther)
		}
		last, lastOther = calls, other
	}
	if len(last) != 4 {
		t.Errorf("%d series: %v", len(last), last)
	}
}

func TestStrangeNames(t *testing.T) {
	spec := tabletest.Spec()
	spec.Functions[0].Name = "quote\"new\nline\xff"
	spec.Functions[2].Name = spec.Functions[1].Name // the same object, name and address twice
	spec.Functions[2].Address = spec.Functions[1].Address
	c, _ := demo(t, Options{}, spec)
	calls, other := values(t, c)
	if calls["quote\"new\uFFFDline\uFFFD"] != 700 || other != 3 {
		t.Errorf("calls %v, others %v", calls, other)
	}
}

func TestUnreadableTable(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewCollector(&File{Path: filepath.Join(t.TempDir(), "gone")}, Options{}))
	if _, err := reg.Gather(); err == nil {
		t.Error("a missing table was scraped")
	}
}
