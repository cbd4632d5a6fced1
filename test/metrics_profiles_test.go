package test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// callsIn are the calls of each function in a profile, as pprof reads it.
func callsIn(t *testing.T, profile []byte) map[string]uint64 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profile")
	if err := os.WriteFile(path+".pb.gz", profile, 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]uint64{}
	for _, m := range regexp.MustCompile(`(?m)^ *(\d+) +\S+% +\S+% +\d+ +\S+%  (.*)$`).FindAllStringSubmatch(pprof(t, path, "-top", "-nodecount=100000", "-nodefraction=0"), -1) {
		n, err := strconv.ParseUint(m[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all[m[2]] += n
	}
	return all
}

// fetch gets a URL.
func fetch(t *testing.T, url string) (status int, body []byte) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, err = io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, body
}

// TestProfiles: the endpoint of a program has a profile of its calls, and one of those that
// are made in a time.
func TestProfiles(t *testing.T) {
	lane.Parallel(t)
	s, at := serveListening(t, "--listen", "127.0.0.1:0", "--linger", "0s")
	s.rounds(20)
	url := "http://" + at + "/pprof/calls"
	status, body := fetch(t, url)
	if all := callsIn(t, body); status != http.StatusOK || all["whole"] != 42 || all["outer"] != 21 {
		t.Errorf("%d %v", status, all)
	}
	if status, body = fetch(t, url+"?seconds=1"); status != http.StatusOK || len(callsIn(t, body)) != 0 {
		t.Errorf("a program that waits: %d %v", status, callsIn(t, body))
	}
	done := make(chan []byte)
	go func() {
		r, err := http.Get(url + "?seconds=2")
		if err != nil {
			done <- nil
			return
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		done <- body
	}()
	rounds := uint64(0)
	for waiting := true; waiting; {
		select {
		case body = <-done:
			waiting = false
		default:
			s.rounds(1)
			rounds++
		}
	}
	if all := callsIn(t, body); all["outer"] == 0 || all["outer"] > rounds || all["outer"]+1 < all["whole"]/2 {
		t.Errorf("%v of %d rounds", all, rounds)
	}
	for query, want := range map[string]int{"?seconds=0": 400, "?seconds=x": 400, "?seconds=301": 400, "?pid=1": 400, "?a=b": 400} {
		if status, body := fetch(t, url+query); status != want || strings.Count(string(body), "\n") != 1 {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	const many = 12
	answers := make(chan int, many)
	for range many {
		go func() {
			r, err := http.Get(url + "?seconds=4")
			if err != nil {
				answers <- 0
				return
			}
			r.Body.Close()
			answers <- r.StatusCode
		}()
	}
	got := map[int]int{}
	for range many {
		got[<-answers]++
	}
	if got[http.StatusOK] == 0 || got[http.StatusServiceUnavailable] == 0 || len(got) != 2 {
		t.Errorf("%d at a time: %v", many, got)
	}
	if r, err := http.Post(url, "text/plain", nil); err != nil || r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%+v %v", r, err)
	}
	s.finish()
}

// TestPush: a server gets each call of each program once, also those of a time in which it
// failed, and those from before the end.
func TestPush(t *testing.T) {
	lane.Parallel(t)
	var mu sync.Mutex
	calls, failures, tenants := map[string]map[string]uint64{}, 0, 0 // by program and function
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		const fail = 2
		if failures++; failures <= fail {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		q := r.URL.Query()
		from, _ := strconv.ParseInt(q.Get("from"), 10, 64)
		until, _ := strconv.ParseInt(q.Get("until"), 10, 64)
		file, _, err := r.FormFile("profile")
		if err != nil || r.URL.Path != "/sub/ingest" || q.Get("format") != "pprof" || from == 0 || until < from || r.FormValue("x") != "" {
			t.Errorf("%v %s", err, r.URL)
			return
		}
		profile, _ := io.ReadAll(file)
		of := calls[q.Get("name")]
		if of == nil {
			of = map[string]uint64{}
			calls[q.Get("name")] = of
		}
		for name, n := range callsIn(t, profile) {
			of[name] += n
		}
		if r.Header.Get("X-Scope-OrgID") == "team" {
			tenants++
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	old := startServed(t, filepath.Join(dir, "old.dynprof")) // runs already: another may have sent its calls
	old.rounds(100)
	push := exec.Command(build(t, "hotspots"), "serve", "--state", "", "--listen", "127.0.0.1:0", "--push", server.URL+"/sub", "--push-every", "1s", "--push-header", "X-Scope-OrgID: team", dir)
	stderr, err := push.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := push.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { push.Process.Kill(); push.Wait() })
	said := make(chan string)
	go func() {
		all, _ := io.ReadAll(stderr)
		said <- string(all)
	}()
	seen := func(enough func() bool) {
		t.Helper()
		for limit := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			mu.Lock()
			ok := enough()
			mu.Unlock()
			if ok {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("%v", calls)
			}
			old.rounds(1)
		}
	}
	seen(func() bool { return len(calls) == 1 }) // it has seen that program
	s := startServed(t, filepath.Join(dir, "new.dynprof"))
	s.rounds(20)
	seen(func() bool { return len(calls) == 2 })
	s.rounds(13)
	s.finish()
	push.Process.Signal(syscall.SIGTERM)
	line := <-said
	if err := push.Wait(); err != nil {
		t.Errorf("%v %s", err, line)
	}
	rep := readReport(t, s.table)
	host, _ := os.Hostname()
	name := fmt.Sprintf("%s{host=%s,pid=%d}", filepath.Base(rep.Program), host, rep.Pid)
	mu.Lock()
	defer mu.Unlock()
	for _, function := range []string{"whole", "outer", "loops", "main"} {
		if got, want := calls[name][function], rep.calls(t, function); got != want || want == 0 {
			t.Errorf("%d calls of %s, not %d: %v", got, function, want, calls)
		}
	}
	for of, all := range calls {
		if of != name && (all["outer"] == 0 || all["outer"]+100 > readReport(t, old.table).calls(t, "outer")) {
			t.Errorf("%s: %v, and the table %d: %s", of, all, readReport(t, old.table).calls(t, "outer"), line)
		}
	}
	if tenants == 0 || !strings.Contains(line, "not pushed, and sent with what comes next: "+strings.TrimPrefix(server.URL, "http://")+" answers 503") {
		t.Errorf("%d with the header; it says %q", tenants, line)
	}
}

// startServed is serve with its table at that path.
func startServed(t *testing.T, table string) *served {
	t.Helper()
	s := &served{t: t, table: table, cmd: exec.Command(build(t, "hotspots"), "run", "-o", table, "--summary", "0", "--", controlled(t, "gcc", "-O1"), "serve")}
	s.to, s.from = converse(t, s.cmd)
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	s.rounds(1)
	return s
}
