package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// needAlso is need for what scripts/deps.sh prometheus installs.
func needAlso(t testing.TB, program string) string {
	t.Helper()
	for _, path := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	t.Skipf("no %s on this machine (scripts/deps.sh prometheus installs it)", program)
	return ""
}

// freePort is one that nobody listens at now.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// background starts a program and ends it with the test.
func background(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(args[0], args[1:]...)
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), env...), log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		log.Close()
		if t.Failed() {
			t.Logf("%s: %s", args[0], startOf(log.Name()))
		}
	})
	return c
}

// startOf is as much of a file as is worth showing.
func startOf(path string) []byte {
	b, _ := os.ReadFile(path)
	return b[:min(len(b), 8000)]
}

// prometheus is a real one.
type prometheus struct {
	t       testing.TB
	address string
}

// startPrometheus scrapes the targets every second, with the rules of deploy/.
func startPrometheus(t *testing.T, jobs string) *prometheus {
	t.Helper()
	program, dir := needAlso(t, "prometheus"), t.TempDir()
	rules, err := filepath.Abs("../deploy/prometheus/dynprof.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := write(t, filepath.Join(dir, "prometheus.yml"), "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: ["+rules+"]\nscrape_configs:\n"+jobs, 0o600)
	p := &prometheus{t, freePort(t)}
	background(t, []string{"GOMAXPROCS=1"}, program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address, "--log.level=warn")
	p.until("it is ready", func() bool {
		r, err := http.Get("http://" + p.address + "/-/ready")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return p
}

// until waits for what must come.
func (p *prometheus) until(what string, is func() bool) {
	p.t.Helper()
	for limit := time.Now().Add(time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(limit) {
			p.t.Fatalf("Prometheus: not %s", what)
		}
	}
}

// sample is one time and value.
type sample struct {
	time  float64
	value float64
}

// series is one of an answer.
type series struct {
	labels map[string]string
	values []sample
}

// api asks Prometheus's HTTP API.
func (p *prometheus) api(path string, query url.Values, data any) error {
	r, err := http.Get("http://" + p.address + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(b, &answer); err != nil || answer.Status != "success" {
		return fmt.Errorf("%s %v: %s%v", path, query, answer.Error, err)
	}
	return json.Unmarshal(answer.Data, data)
}

// query runs a query now; of a range it returns all samples as they are.
func (p *prometheus) query(expr string) []series {
	p.t.Helper()
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := p.api("query", url.Values{"query": {expr}}, &data); err != nil {
		p.t.Fatal(err)
	}
	if data.ResultType == "scalar" {
		return []series{{values: []sample{{}}}}
	}
	var result []struct {
		Metric map[string]string
		Value  []any
		Values [][]any
	}
	if err := json.Unmarshal(data.Result, &result); err != nil {
		p.t.Fatal(err)
	}
	var all []series
	for _, r := range result {
		s := series{labels: r.Metric}
		if r.Value != nil {
			r.Values = [][]any{r.Value}
		}
		for _, v := range r.Values {
			n, err := strconv.ParseFloat(v[1].(string), 64)
			if err != nil {
				p.t.Fatal(err)
			}
			s.values = append(s.values, sample{v[0].(float64), n})
		}
		all = append(all, s)
	}
	return all
}

// totals are the sums over all calls at each scrape of a job. It fails unless
// every series only goes up, and the sums too.
func (p *prometheus) totals(job, prefix string) []sample {
	p.t.Helper()
	all := p.query(`{job="` + job + `",__name__=~"` + prefix + `dynprof_(other_)?function_calls_total"}[1h]`)
	sums, order := map[float64]float64{}, []float64{}
	for _, s := range all {
		last := 0.0
		for _, v := range s.values {
			if v.value < last {
				p.t.Errorf("%v goes from %v to %v", s.labels, last, v.value)
			}
			last = v.value
			sums[v.time] += v.value
			if s.labels["__name__"] == prefix+"dynprof_other_function_calls_total" { // in every scrape
				order = append(order, v.time)
			}
		}
	}
	var totals []sample
	for _, at := range order {
		if n := len(totals); n > 0 && sums[at] < totals[n-1].value {
			p.t.Errorf("the total goes from %v to %v", totals[n-1].value, sums[at])
		}
		totals = append(totals, sample{at, sums[at]})
	}
	return totals
}

// startNginx runs a counted nginx that listens for metrics, in the foreground,
// with two workers.
func startNginx(t *testing.T, metrics string) (c *exec.Cmd, table, web string) {
	t.Helper()
	nginx, dir := needAlso(t, "nginx"), t.TempDir()
	os.Chmod(dir, 0o755)
	table, web = filepath.Join(dir, "nginx.dynprof"), freePort(t)
	user := ""
	if os.Getuid() == 0 {
		user = "user root;\n"
	}
	config := write(t, filepath.Join(dir, "nginx.conf"), user+`daemon off; worker_processes 2; pid `+dir+`/pid; error_log `+dir+`/error.log;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path `+dir+`/body; proxy_temp_path `+dir+`/proxy; fastcgi_temp_path `+dir+`/fcgi; uwsgi_temp_path `+dir+`/uwsgi; scgi_temp_path `+dir+`/scgi;
	server { listen `+web+`; location / { return 200 "hello"; } }
}
`, 0o644)
	c = background(t, nil, build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--listen", metrics, "--linger", "1m", "--", nginx, "-c", config, "-p", dir)
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if r, err := http.Get("http://" + web); err == nil {
			r.Body.Close()
			return c, table, web
		}
		if time.Now().After(limit) {
			t.Fatalf("nginx does not come: %s", startOf(filepath.Join(dir, "error.log")))
		}
	}
}

// TestPrometheusNginx: a real Prometheus scrapes a counted nginx under load. The
// sum is the exact total at each scrape, no counter goes down, and every query of
// dashboard and rules works; two minutes in the long lane.
func TestPrometheusNginx(t *testing.T) {
	lane.Parallel(t)
	needAlso(t, "prometheus")
	ab := needAlso(t, "ab")
	metrics := freePort(t)
	nginx, table, web := startNginx(t, metrics)
	dir := filepath.Dir(table)
	many := freePort(t)
	background(t, nil, build(t, "hotspots"), "serve", "--state", filepath.Join(t.TempDir(), "series"), "--listen", many, dir)
	p := startPrometheus(t, "  - {job_name: own, static_configs: [{targets: ['"+metrics+"']}]}\n"+
		"  - job_name: host\n    http_sd_configs: [{url: 'http://"+many+"/sd', refresh_interval: 1s}]\n    metric_relabel_configs: [{source_labels: [__name__], regex: 'dynprof_.*calls_total', target_label: __name__, replacement: 'host_$0'}]\n")
	seconds := lane.Of(8, 120)
	load := background(t, nil, ab, "-q", "-t", strconv.Itoa(seconds), "-n", "100000000", "-c", "4", "http://"+web+"/")
	seen := watch(t, table, seconds, func(since time.Time) bool {
		return p.scraped("own", "", since) && p.scraped("host", "host_", since)
	})
	load.Wait()
	checkDeployed(t, p)
	quit(t, nginx, table)
	want := float64(readReport(t, table).TotalCalls)
	p.until("scraping the last counts", func() bool {
		totals := p.totals("own", "")
		return totals[len(totals)-1].value == want
	})
	totals := p.totals("own", "")
	seen.check(t, p, "own", totals)
	seen.check(t, p, "host", p.totals("host", "host_"))
	if len(totals) < seconds/2 || totals[0].value == want {
		t.Errorf("%d scrapes, the first with %v of %v", len(totals), totals[0].value, want)
	}
	t.Logf("%d scrapes, %.0f calls, of %d functions by name", len(totals), want, len(p.query(`{__name__="dynprof_function_calls_total"}`)))
	p.until("scraping them from hotspots serve", func() bool {
		sum := p.query(`sum({__name__=~"host_dynprof_(other_)?function_calls_total"})`)
		return len(sum) == 1 && sum[0].values[0].value == want
	})
	// By function, of the report and by Prometheus.
	byName := map[string]float64{}
	for _, s := range p.query("max by (object, function_id) (last_over_time(dynprof_function_calls_total[5m]))") {
		byName[s.labels["object"]+s.labels["function_id"]] = s.values[0].value
	}
	equal := 0
	for _, f := range readReport(t, table).Functions {
		if n, ok := byName[f.Object+f.Address]; ok && n == float64(f.Calls) {
			equal++
		} else if ok && n > float64(f.Calls) {
			t.Errorf("%s: %v calls, the report has %d", f.Name, n, f.Calls)
		}
	}
	if equal < 30 { // those that were among the most called from the first scrape on
		t.Errorf("%d functions of %d have the report's calls", equal, len(byName))
	}
}

// scraped tells whether there is a scrape that began since.
func (p *prometheus) scraped(job, prefix string, since time.Time) bool {
	p.t.Helper()
	totals := p.totals(job, prefix)
	return len(totals) > 0 && totals[len(totals)-1].time > float64(since.UnixMilli())/1000+0.02
}

// quit ends nginx gently and waits.
func quit(t *testing.T, nginx *exec.Cmd, table string) {
	t.Helper()
	pid := readReport(t, table).Pid
	if err := exec.Command("kill", "-QUIT", strconv.Itoa(pid)).Run(); err != nil {
		t.Fatal(err)
	}
	if err := nginx.Wait(); err != nil {
		t.Error(err)
	}
}

// checkDeployed runs every query of the dashboard, and looks at every rule.
func checkDeployed(t *testing.T, p *prometheus) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Query, Health, LastError, Type string }
		}
	}
	p.until("evaluating all rules", func() bool {
		if err := p.api("rules", nil, &rules); err != nil {
			t.Fatal(err)
		}
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				if r.Health != "ok" {
					return false
				}
			}
		}
		return len(rules.Groups) == 2
	})
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if n := len(p.query(r.Query)); r.Type == "recording" && n == 0 || r.LastError != "" {
				t.Errorf("rule %s: %d series, %s", r.Name, n, r.LastError)
			}
		}
	}
	for title, exprs := range dashboard(t) {
		for _, e := range exprs {
			if len(p.query(e)) == 0 {
				t.Errorf("panel %q: nothing: %s", title, e)
			}
		}
	}
}

// dashboard are the queries of the dashboard by panel, with its variables as they
// are at first.
func dashboard(t *testing.T) map[string][]string {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(read(t, "../deploy/grafana/dynprof.json")), &d); err != nil {
		t.Fatal(err)
	}
	vars := strings.NewReplacer("$__rate_interval", "10s", "$__range", "1h", "$job", "own", "$instance", ".*", "$program", ".*")
	all := map[string][]string{}
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			e := vars.Replace(target.Expr)
			if strings.Contains(e, "$") {
				t.Errorf("panel %q: a variable that is not known: %s", panel.Title, e)
			}
			all[panel.Title] = append(all[panel.Title], e)
		}
	}
	if len(all) < 10 {
		t.Errorf("%d panels", len(all))
	}
	return all
}
