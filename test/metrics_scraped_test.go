package test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/exporter"
	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// endpointOf is the process that serves a table. It has answered: its socket is open
// before the twin has become it.
func endpointOf(t *testing.T, path, at string) (pid int) {
	t.Helper()
	text(t, at, "/-/healthy")
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		args, _ := os.ReadFile(file)
		if n, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && bytes.Contains(args, []byte("\x00agent\x00")) && bytes.Contains(args, []byte(path+"\x00")) {
			return n
		}
	}
	t.Fatalf("nobody serves %s", path)
	return 0
}

// text is what an endpoint answers, whatever the status.
func text(t *testing.T, at, path string) string {
	t.Helper()
	r, err := dial(at).Get("http://dynprof" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// hostile are clients that ask in vain, do not ask, or do not listen. They hold
// on until stop is called.
func hostile(t *testing.T, at string, n int) (stop func()) {
	t.Helper()
	requests := []string{
		"", "GET /metrics HT", "GET /metrics HTTP/1.1\r\nHost: x\r\nA: ", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x00\xff\r\n\r\n", "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nx", "GET /metrics?top=999999 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /metrics?" + strings.Repeat("function[]=a&", 500) + " HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00",
	}
	var all []net.Conn
	for i := range n {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, requests[i%len(requests)]) // an error is its answer
		all = append(all, c)
	}
	return func() {
		for _, c := range all {
			c.Close()
		}
	}
}

// TestScrapedByMany: 1,000 scrapes at a time, and clients that mean no good: the
// program's counts are those that it has without them, and the endpoint's memory
// is bounded.
func TestScrapedByMany(t *testing.T) {
	lane.Parallel(t)
	const most = 100 << 10 // KiB
	s, at := serveListening(t, "--listen", "127.0.0.1:0", "--linger", "1m")
	rounds := uint64(1)
	pid := readReport(t, s.table).Pid
	before := state(pid, "Threads")
	endpoint := endpointOf(t, s.table, at)
	for range 3 {
		stop := hostile(t, at, 100)
		var all sync.WaitGroup
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
		var mu sync.Mutex
		answered := map[int]int{}
		for range 1000 {
			all.Go(func() {
				r, err := client.Get("http://" + at + "/metrics")
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || r.StatusCode == http.StatusOK && !bytes.Contains(b, []byte("\ndynprof_other_function_calls_total ")) {
					t.Errorf("%v: %s", err, b)
				}
				mu.Lock()
				answered[r.StatusCode]++
				mu.Unlock()
			})
		}
		s.rounds(50)
		rounds += 50
		all.Wait()
		if answered[http.StatusOK] != 1000 {
			t.Errorf("answers by status: %v", answered)
		}
		stop()
	}
	s.expect("after 3,000 scrapes", rounds)
	if now := scrapeAt(t, at); now.total() != float64(readReport(t, s.table).TotalCalls) {
		t.Errorf("%v calls, the report has %d", now.total(), readReport(t, s.table).TotalCalls)
	}
	if kb := number(state(endpoint, "VmHWM")); kb == 0 || kb > most {
		t.Errorf("the endpoint took %d KiB", kb)
	}
	t.Logf("VmHWM of the endpoint: %s", state(endpoint, "VmHWM"))
	if now := state(pid, "Threads"); now != before {
		t.Errorf("the program has %s threads, %s before", now, before)
	}
	s.finish()
	scrapeAt(t, at)
	closed(t, at)
}

// TestScrapedAfterDeath: who is killed leaves exact counts to the last scrape,
// and its children go on.
func TestScrapedAfterDeath(t *testing.T) {
	lane.Parallel(t)
	s, at := serveListening(t, "--listen", "127.0.0.1:0", "--linger", "1m")
	s.rounds(30)
	syscall.Kill(readReport(t, s.table).Pid, syscall.SIGKILL)
	s.cmd.Wait()
	want := float64(readReport(t, s.table).TotalCalls)
	if now := scrapeAt(t, at); now.total() != want {
		t.Errorf("%v calls, the report has %v", now.total(), want)
	}
	closed(t, at)
}

// TestScrapedWithoutDescriptors: a program that closes all descriptors keeps its
// endpoint, and reads or writes nothing of ours.
func TestScrapedWithoutDescriptors(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "closes.c")
	dir := t.TempDir()
	file, path := write(t, filepath.Join(dir, "file"), "", 0o600), filepath.Join(dir, "a.dynprof")
	c := exec.Command(build(t, "hotspots"), "run", "-o", path, "--summary", "0", "--listen", "127.0.0.1:0", "--linger", "1m", "--", p, file)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	tick := func(s *scrapes) (n float64) {
		for key, v := range s.calls {
			if strings.Contains(key, `function="tick"`) {
				n = v
			}
		}
		return n
	}
	var at string
	for limit := time.Now().Add(patience); at == "" && time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if tab, err := table.Open(path); err == nil {
			at = tab.Listen
			tab.Close()
		}
	}
	first := scrapeAt(t, at)
	for limit := time.Now().Add(patience); tick(first) == 0 && time.Now().Before(limit); {
		first = scrapeAt(t, at)
	}
	if open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", readReport(t, path).Pid)); err != nil || len(open) != 0 {
		t.Errorf("it has %v, %v", open, err)
	}
	second := scrapeAt(t, at)
	for limit := time.Now().Add(patience); tick(second) <= tick(first) && time.Now().Before(limit); {
		second = scrapeAt(t, at)
	}
	if tick(second) <= tick(first) || tick(first) == 0 {
		t.Errorf("ticks: %v, then %v", tick(first), tick(second))
	}
	os.Remove(file)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if now, want := scrapeAt(t, at), readReport(t, path).TotalCalls; now.total() != float64(want) {
		t.Errorf("%v calls, the report has %d", now.total(), want)
	}
	closed(t, at)
}

// TestScrapedTableIsDamaged: a table that was cut short, or is gone, is an error
// of the endpoint, which lives.
func TestScrapedTableIsDamaged(t *testing.T) {
	lane.Parallel(t)
	s, at := serveListening(t, "--listen", "127.0.0.1:0", "--linger", "1m")
	many := "unix:" + filepath.Join(t.TempDir(), "socket")
	background(t, nil, build(t, "hotspots"), "serve", "--state", "", "--listen", many, filepath.Dir(s.table))
	whole := scrapeAt(t, at)
	scrapeAt(t, many)
	fi, err := os.Stat(s.table)
	if err != nil {
		t.Fatal(err)
	}
	pid := readReport(t, s.table).Pid
	syscall.Kill(pid, syscall.SIGSTOP) // it would die of a count
	defer syscall.Kill(pid, syscall.SIGKILL)
	stop := make(chan bool)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if s, err := scrapeOnce(at); err == nil {
						s.monotone(t, whole)
					}
				}
			}
		})
	}
	endpoint := endpointOf(t, s.table, at)
	for _, size := range []int64{fi.Size() - 1, 1 << 16, layout.HeaderSize, 100, 0} {
		if err := os.Truncate(s.table, size); err != nil {
			t.Fatal(err)
		}
		if got := text(t, at, "/metrics"); !strings.Contains(got, "cut short") && !strings.Contains(got, "truncated") {
			t.Errorf("cut to %d bytes: %.200s", size, got)
		}
		if got := text(t, many, "/metrics"); !strings.Contains(got, "dynprof_tables{state=\"unreadable\"} 1\n") || strings.Contains(got, "calls_total{") {
			t.Errorf("cut to %d bytes, of many: %.2000s", size, got)
		}
	}
	close(stop)
	all.Wait()
	if got := text(t, at, "/-/healthy"); got != "healthy\n" {
		t.Errorf("health: %s", got)
	}
	if endpointOf(t, s.table, at) != endpoint {
		t.Error("it is another endpoint")
	}
}

// TestScrapedConnections: who comes when as many hold a connection as there may be
// waits until one of them has gone.
func TestScrapedConnections(t *testing.T) {
	lane.Parallel(t)
	s, at := serveListening(t, "--listen", "127.0.0.1:0", "--linger", "1m")
	stop := hostile(t, at, exporter.MaxConnections+100)
	answered := make(chan float64)
	go func() { answered <- scrapeAt(t, at).total() }()
	stop()
	if n := <-answered; n != float64(readReport(t, s.table).TotalCalls) {
		t.Errorf("%v calls", n)
	}
	s.finish()
}

// TestScrapedSecrets: arguments, environment and files of a program are in no
// answer, and not in the table.
func TestScrapedSecrets(t *testing.T) {
	lane.Parallel(t)
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "input"), "secret-in-a-file\n", 0o600)
	table := filepath.Join(dir, "a.dynprof")
	c := exec.Command(build(t, "hotspots"), "run", "-o", table, "--summary", "0", "--listen", "0", "--linger", "1m", "--",
		"/bin/cat", "-n", file, "-", "./secret-argument")
	c.Env = append(os.Environ(), "PASSWORD=secret-variable")
	in, out := converse(t, c)
	io.WriteString(in, "secret-input\n")
	b := make([]byte, 1000)
	for n := 0; !strings.Contains(string(b), "secret-input"); {
		more, err := out.Read(b[n:])
		if n += more; err != nil {
			t.Fatal(err)
		}
	}
	at := address(t, table)
	many := "unix:" + filepath.Join(t.TempDir(), "socket")
	background(t, nil, build(t, "hotspots"), "serve", "--state", "", "--listen", many, dir)
	scrapeAt(t, many)
	copied := filepath.Join(t.TempDir(), "copy") // without holes
	if r := run(t, cmd(build(t, "hotspots"), "snapshot", "-o", copied, table)); r.status != 0 {
		t.Fatal(r.stderr)
	}
	answers := map[string]string{"the table": read(t, copied)}
	for _, path := range []string{"/metrics?top=1000", "/", "/-/healthy", "/nothing", "/debug/pprof/cmdline"} {
		answers[at+path] = text(t, at, path)
		answers[many+path] = text(t, many, path)
	}
	answers[many+"/sd"] = text(t, many, "/sd")
	for from, answer := range answers {
		if i := strings.Index(answer, "secret-"); i >= 0 || answer == "" {
			t.Errorf("%s: %.60s", from, answer[max(0, i-20):])
		}
	}
	if !strings.Contains(answers[at+"/metrics?top=1000"], "dynprof_function_calls_total{object=") {
		t.Error("nothing was served")
	}
	in.Close()
	io.Copy(io.Discard, out)
	c.Wait() // there is no file of its last argument
}

// TestScrapedTranslatorFailures: a translator that crashes is in the metrics.
func TestScrapedTranslatorFailures(t *testing.T) {
	lane.Parallel(t)
	port := freePort(t)
	p := translating(t, "-O2")
	r, _ := countedAt(t, cmd(p, "crash-null", "sync"), "--listen", port, "--linger", "1m")
	if r.stdout != "ok\n" {
		t.Fatalf("%+v", r)
	}
	if got := text(t, port, "/metrics"); !strings.Contains(got, "\ndynprof_translator_failures_total 1\n") {
		t.Errorf("%s", got)
	}
	closed(t, port)
}
