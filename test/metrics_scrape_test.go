package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrapes is what one scrape said.
type scrapes struct {
	calls map[string]float64 // by all labels of a series
	other float64
}

func (s *scrapes) total() float64 {
	sum := s.other
	for _, n := range s.calls {
		sum += n
	}
	return sum
}

// dial is a client of an endpoint; address is as hotspots ls says it.
func dial(address string) *http.Client {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}
}

// scrapeOnce is one scrape, or why there is none.
func scrapeOnce(address string) (*scrapes, error) {
	r, err := dial(address).Get("http://dynprof/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(r.Body)
		return nil, fmt.Errorf("%s: %s", r.Status, text)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(r.Body)
	if err != nil {
		return nil, err
	}
	s := &scrapes{calls: map[string]float64{}}
	for _, m := range families["dynprof_function_calls_total"].GetMetric() {
		var key strings.Builder
		for _, l := range m.Label {
			fmt.Fprintf(&key, "%s=%q,", l.GetName(), l.GetValue())
		}
		s.calls[key.String()] = m.GetCounter().GetValue()
	}
	for _, m := range families["dynprof_other_function_calls_total"].GetMetric() {
		s.other += m.GetCounter().GetValue()
	}
	return s, nil
}

// scrape waits until an endpoint is there.
func scrapeAt(t testing.TB, address string) *scrapes {
	t.Helper()
	s, err := scrapeOnce(address)
	for limit := time.Now().Add(patience); err != nil && time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		s, err = scrapeOnce(address)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// monotone fails if a counter of after is less than in before, or is not there.
func (s *scrapes) monotone(t testing.TB, before *scrapes) {
	t.Helper()
	for key, n := range before.calls {
		if s.calls[key] < n {
			t.Errorf("%s: %v after %v", key, s.calls[key], n)
		}
	}
	if s.other < before.other {
		t.Errorf("others: %v after %v", s.other, before.other)
	}
}

// closed waits until nobody listens any more.
func closed(t testing.TB, address string) {
	t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if _, err := scrapeOnce(address); err != nil && noListener(err) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s is still there", address)
		}
	}
}

// noListener reports whether nobody listens there.
func noListener(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// address is what hotspots ls says of a table's program, once its endpoint runs: a
// program does not wait for that.
func address(t testing.TB, table string) string {
	t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		at, list := listener(t, table)
		if at != "" {
			return at
		}
		if time.Now().After(limit) {
			t.Fatalf("nobody listens for %s: %s", table, list)
		}
	}
}

// listener is the address in what hotspots ls says, and all of that.
func listener(t testing.TB, table string) (at, all string) {
	t.Helper()
	out := run(t, cmd(build(t, "hotspots"), "ls", "--format", "json", filepath.Dir(table)))
	var list struct {
		Tables []struct{ Table, Listen string }
	}
	if err := json.Unmarshal([]byte(out.stdout), &list); err != nil {
		t.Fatalf("%v: %s%s", err, out.stdout, out.stderr)
	}
	for _, l := range list.Tables {
		if l.Table == table {
			return l.Listen, out.stdout
		}
	}
	t.Fatalf("%s is not in the list: %s", table, out.stdout)
	return "", ""
}
