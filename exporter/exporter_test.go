package exporter

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func demo(t testing.TB, opt Options, spec *build.Spec) (*Endpoint, *tabletest.Live) {
	t.Helper()
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	e := NewProgram(live.Path, opt)
	t.Cleanup(e.Close)
	return e, live
}

// get asks for a path with headers in pairs.
func get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// scraped is what a scrape says, by name and labels as they are written.
type scraped map[string]float64

// scrape asks for /metrics and fails unless the answer is valid, without a
// sample that is there twice.
func scrape(t testing.TB, e *Endpoint, query string) scraped {
	t.Helper()
	w := get(e, "/metrics"+query)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: status %d: %s", query, w.Code, w.Body)
	}
	return parse(t, w.Body)
}

func parse(t testing.TB, r io.Reader) scraped {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(r)
	if err != nil {
		t.Fatal(err)
	}
	all := scraped{}
	for name, f := range families {
		for _, m := range f.Metric {
			key := name + labelText(m)
			if _, twice := all[key]; twice {
				t.Errorf("%s is there twice", key)
			}
			all[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}

func labelText(m *dto.Metric) string {
	var b strings.Builder
	for _, l := range m.Label {
		b.WriteString("," + l.GetName() + "=" + l.GetValue())
	}
	return b.String()
}

const (
	callsName = "dynprof_function_calls_total"
	otherName = "dynprof_other_function_calls_total"
)

// calls are the calls by function, and of the others.
func (s scraped) calls() (by map[string]float64, other float64) {
	by = map[string]float64{}
	for key, v := range s {
		name, labels, _ := strings.Cut(key, ",")
		switch name {
		case callsName:
			_, function, _ := strings.Cut(labels, "function=")
			function, _, _ = strings.Cut(function, ",function_id=")
			by[function] += v
		case otherName:
			other += v
		}
	}
	return by, other
}

func (s scraped) total() (sum float64) {
	by, other := s.calls()
	for v := range maps.Values(by) {
		sum += v
	}
	return sum + other
}

func TestMetrics(t *testing.T) {
	e, live := demo(t, Options{}, tabletest.Spec())
	live.Write(layout.HdrTranslatorFailures, []byte{3})
	got := get(e, "/metrics").Body.String()
	for _, want := range []string{
		`dynprof_build_info{version="test"} 1`,
		"# TYPE dynprof_function_calls_total counter",
		`dynprof_function_calls_total{object="/opt/demo/demo",function="demo::add(int, int)",function_id="0x1160"} 1500`,
		`dynprof_function_calls_total{object="/opt/demo/demo",function="main",function_id="0x1139"} 700`,
		`dynprof_function_calls_total{object="/usr/lib/libdemo.so.1",function="foo::bar",function_id="0x2000"} 20`,
		`dynprof_function_calls_total{object="/opt/demo/demo",function="demo+0x1170",function_id="0x1170"} 3`,
		`dynprof_functions{state="counted"} 4`,
		`dynprof_functions{state="uncounted"} 2`,
		`dynprof_functions_skipped{reason="too-short"} 1`,
		`dynprof_functions_skipped{reason="not-selected"} 1`,
		`dynprof_functions_skipped{reason="uses-gs"} 0`,
		`dynprof_hot_events_total 1`,
		`dynprof_other_function_calls_total 0`,
		`dynprof_threads 1`,
		`dynprof_translator_failures_total 3`,
	} {
		if !strings.Contains("\n"+got, "\n"+want+"\n") {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "dynprof_") {
			t.Errorf("a metric of ours: %s", line)
		}
	}
	if _, ok := scrape(t, e, "")["dynprof_scrape_duration_seconds"]; !ok {
		t.Error("no duration")
	}
}

func TestLint(t *testing.T) {
	program, live := demo(t, Options{}, tabletest.Spec())
	host := NewHost(func() []string { return []string{filepath.Dir(live.Path)} }, 1<<62, Options{})
	defer host.Close()
	for _, e := range []*Endpoint{program, host} {
		problems, err := promlint.New(get(e, "/metrics").Body).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// The order of functions changes from scrape to scrape: no counter goes down,
// no series ends, and the sum is the total. So it is in every view.
func TestSeriesAreStickyAndSumToTheTotal(t *testing.T) {
	e, live := demo(t, Options{Top: 1}, tabletest.Spec())
	type seen struct {
		by    map[string]float64
		other float64
	}
	last := map[string]seen{}
	for _, counts := range [][]uint64{
		{700, 1000, 3, 0}, {2000, 1000, 3, 0}, {2000, 5000, 9000, 1}, {2001, 5000, 9000, 99999}, {1 << 40, 5000, 9000, 99999},
	} {
		live.Set(0, counts...)
		total := 520.0 // row 1
		for _, n := range counts {
			total += float64(n)
		}
		for _, query := range []string{"", "?top=2", "?function[]=demo*", "?function[]=nothing", "?top=1&function[]=f*&function[]=main"} {
			s := scrape(t, e, query)
			by, other := s.calls()
			for name, v := range by {
				if v < last[query].by[name] {
					t.Errorf("%s: %s went down from %v to %v", query, name, last[query].by[name], v)
				}
			}
			for name := range last[query].by {
				if _, ok := by[name]; !ok {
					t.Errorf("%s: the series of %s ended", query, name)
				}
			}
			if s.total() != total || other < last[query].other {
				t.Errorf("%s: sum %v of %v, others %v after %v", query, s.total(), total, other, last[query].other)
			}
			last[query] = seen{by, other}
		}
	}
	for query, want := range map[string]int{"": 4, "?top=2": 4, "?function[]=demo*": 2, "?function[]=nothing": 0, "?top=1&function[]=f*&function[]=main": 2} {
		if n := len(last[query].by); n != want {
			t.Errorf("%s: %d series: %v", query, n, last[query].by)
		}
	}
}

// TestMostSeries: where an endpoint keeps no more series, calls are among the others.
func TestMostSeries(t *testing.T) {
	e, live := demo(t, Options{Top: 2}, tabletest.Spec())
	e.most = 3
	live.Set(0, 700, 1000, 3, 1)
	for _, row := range []struct {
		query  string
		series int
	}{{"", 2}, {"?top=3", 1}, {"?top=4", 0}, {"", 2}} {
		s := scrape(t, e, row.query)
		if by, _ := s.calls(); len(by) != row.series || s.total() != 2224 {
			t.Errorf("%q: %d series, not %d; total %v", row.query, len(by), row.series, s.total())
		}
	}
}

func TestBadQueries(t *testing.T) {
	e, _ := demo(t, Options{}, tabletest.Spec())
	for _, query := range []string{
		"?top=0", "?top=-1", "?top=x", "?top=1001", "?what=1", "?pid=1", "?function=main", "?top=",
		"?function[]=" + strings.Repeat("x", 2000), "?" + strings.Repeat("function[]=a&function[]=b&", 20) + strings.Repeat("function[]=%00&", 3) + distinct(40),
	} {
		if w := get(e, "/metrics"+query); w.Code != http.StatusBadRequest || strings.Count(w.Body.String(), "\n") != 1 {
			t.Errorf("%.40s: status %d: %s", query, w.Code, w.Body)
		}
	}
	for i := range maxViews + 10 {
		want := http.StatusOK
		if i >= maxViews {
			want = http.StatusServiceUnavailable
		}
		if w := get(e, "/metrics?function[]="+strings.Repeat("a", i+1)); w.Code != want {
			t.Errorf("query %d: status %d", i, w.Code)
		}
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("POST", "/metrics", strings.NewReader("x")))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("POST: status %d", w.Code)
	}
}

func distinct(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("&function[]=" + strings.Repeat("z", i+1))
	}
	return b.String()
}

func TestStrangeNames(t *testing.T) {
	spec := tabletest.Spec()
	long := "_ZN" + strings.Repeat("8template", 400) + "1fEv"
	spec.Functions[0].Name = "quote\"back\\new\nline\xff"
	spec.Functions[2].Name = spec.Functions[1].Name // the same object, name and address twice
	spec.Functions[2].Address = spec.Functions[1].Address
	spec.Functions[5].Name = long
	spec.Objects[1].Path = "/usr/lib/\n# TYPE evil counter\nevil 1\n\xf0\x28"
	e, _ := demo(t, Options{}, spec)
	for _, accept := range []string{"", "application/openmetrics-text;version=1.0.0"} {
		body := get(e, "/metrics", "Accept", accept).Body.String()
		if strings.Contains(body, "\nevil") || strings.Contains(body, "\n# TYPE evil") {
			t.Error("a path became a line of its own")
		}
	}
	by, other := scrape(t, e, "").calls()
	if by["quote\"back\\new\uFFFDline\uFFFD"] != 700 || other != 3 || len(by) != 3 {
		t.Errorf("calls %v, others %v", by, other)
	}
	for name, n := range by {
		if strings.Contains(name, "template::template") && (n != 20 || len(name) < 4000) {
			t.Errorf("%d bytes of name, %v calls", len(name), n)
		}
	}
}

func TestNegotiation(t *testing.T) {
	e, _ := demo(t, Options{}, tabletest.Spec())
	plain := get(e, "/metrics")
	if c := plain.Header().Get("Content-Type"); !strings.HasPrefix(c, "text/plain; version=0.0.4") {
		t.Errorf("Content-Type %s", c)
	}
	w := get(e, "/metrics", "Accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "Accept-Encoding", "gzip")
	if c := w.Header().Get("Content-Type"); !strings.HasPrefix(c, "application/openmetrics-text; version=1.0.0") || w.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("Content-Type %s, %v", c, w.Header())
	}
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil || !bytes.HasSuffix(b, []byte("\n# EOF\n")) || !bytes.Contains(b, []byte("# TYPE dynprof_function_calls counter\n")) {
		t.Errorf("%v: %s", err, b)
	}
	for accept, want := range map[string]bool{"": false, "gzip": true, "br, gzip;q=0.5": true, "gzip;q=0": false, "identity": false, "*": true} {
		if got := acceptsGzip(http.Header{"Accept-Encoding": {accept}}); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}

// A table that goes or is damaged is an error, and no more.
func TestUnreadableTable(t *testing.T) {
	gone := NewProgram(filepath.Join(t.TempDir(), "gone"), Options{})
	if w := get(gone, "/metrics"); w.Code != http.StatusNotFound {
		t.Errorf("a missing table: status %d", w.Code)
	}
	e, live := demo(t, Options{}, tabletest.Spec())
	want := scrape(t, e, "").total()
	content, err := os.ReadFile(live.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{0, 100, layout.HeaderSize, int64(live.Rows.Offset)} {
		if err := os.Truncate(live.Path, size); err != nil {
			t.Fatal(err)
		}
		if w := get(e, "/metrics"); w.Code != http.StatusInternalServerError {
			t.Errorf("cut to %d bytes: status %d: %s", size, w.Code, w.Body)
		}
	}
	live.Write(0, content)
	if got := scrape(t, e, "").total(); got != want {
		t.Errorf("total %v, not %v", got, want)
	}
}

// slowClient takes its answer when it is let.
type slowClient struct {
	*httptest.ResponseRecorder
	writing, let chan bool
}

func (c slowClient) Write(b []byte) (int, error) {
	c.writing <- true
	<-c.let
	return c.ResponseRecorder.Write(b)
}

// TestAnsweredSince: a scrape that was asked for before a moment, and is answered behind
// it, has older counts; one that took longer than its client waits was not read.
func TestAnsweredSince(t *testing.T) {
	e, live := demo(t, Options{}, tabletest.Spec())
	slow := slowClient{httptest.NewRecorder(), make(chan bool), make(chan bool)}
	done := make(chan bool)
	go func() {
		e.ServeHTTP(slow, httptest.NewRequest("GET", "/metrics", nil))
		close(done)
	}()
	<-slow.writing
	live.Set(0, 99999, 1000, 3, 0)
	ended := time.Now()
	close(slow.let)
	<-done
	if e.AnsweredSince(ended) {
		t.Errorf("answered with\n%s", slow.Body)
	}
	get(e, "/metrics", "X-Prometheus-Scrape-Timeout-Seconds", "0.000000001")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil).WithContext(gone))
	get(e, "/elsewhere?top=0")
	if e.AnsweredSince(ended) {
		t.Error("a client that had gone counts")
	}
	if get(e, "/metrics", "X-Prometheus-Scrape-Timeout-Seconds", "10"); !e.AnsweredSince(ended) {
		t.Error("not answered")
	}
}
