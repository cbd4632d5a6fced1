package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestPrometheusNames: a real Prometheus takes names with quotes, newlines and
// invalid UTF-8, and C++ names of 4 KB, as they are shown.
func TestPrometheusNames(t *testing.T) {
	lane.Parallel(t)
	needAlso(t, "prometheus")
	dir := t.TempDir()
	spec := tabletest.Spec()
	spec.Program = "/opt/\"quoted\"\n\xff{program}"
	spec.Functions[0].Name = "quote\"back\\slash\nline\ttab\xff#{}=,"
	spec.Functions[1].Name = "_ZN" + strings.Repeat("8template", 400) + "1fEv"
	tabletest.Demo(t, filepath.Join(dir, "a"+tabledir.Ext), spec)
	many := freePort(t)
	background(t, nil, build(t, "hotspots"), "serve", "--state", "", "--linger", "1h", "--listen", many, dir)
	p := startPrometheus(t, "  - {job_name: names, static_configs: [{targets: ['"+many+"']}]}\n")
	var all []series
	p.until("scraping the names", func() bool {
		all = p.query("dynprof_function_calls_total")
		return len(all) > 0
	})
	want := map[string]float64{
		"quote\"back\\slash\uFFFDline\uFFFDtab\uFFFD#{}=,": 700,
		strings.Repeat("template::", 400) + "f()":          1500,
	}
	for _, s := range all {
		name := s.labels["function"]
		if calls, ok := want[name]; ok && calls == s.values[0].value {
			delete(want, name)
		}
		if s.labels["program"] != "/opt/\"quoted\"\uFFFD\uFFFD{program}" {
			t.Errorf("program %q", s.labels["program"])
		}
	}
	if len(want) != 0 || len(all) != 4 {
		t.Errorf("%d series, and not those: %v\n%v", len(all), want, all)
	}
	if up := p.query("up"); len(up) != 1 || up[0].values[0].value != 1 {
		t.Errorf("up: %v", up)
	}
}
