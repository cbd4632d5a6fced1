package exporter

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// server serves e as the endpoints do.
func server(t testing.TB, e *Endpoint) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(e)
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// TestParallelScrapes: many at a time, while counts move, all get a whole answer
// whose sum is a total that there was, and none is older than its question.
func TestParallelScrapes(t *testing.T) {
	e, live := demo(t, Options{Top: 2}, tabletest.Spec())
	address := server(t, e)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	var calls atomic.Uint64
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			least := calls.Load()
			r, err := client.Get("http://" + address + "/metrics")
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			if r.StatusCode != http.StatusOK {
				t.Errorf("status %d", r.StatusCode)
				return
			}
			if got := uint64(parse(t, r.Body).total()); got < least+520 {
				t.Errorf("a total of %d, when there had been %d", got, least+520)
			}
		})
	}
	var stop atomic.Bool
	var counts sync.WaitGroup
	counts.Go(func() {
		for i := uint64(1); !stop.Load(); i++ {
			live.Set(0, i, 0, 0, 0) // the other counters of the row at 0
			calls.Store(i)
		}
	})
	all.Wait()
	stop.Store(true)
	counts.Wait() // the table is closed behind us
	if e.turn.alive != 0 || len(e.turn.waiting) != 0 {
		t.Errorf("%d answers are kept", e.turn.alive)
	}
}

// stuck is a client that does not read until told to.
type stuck struct {
	*httptest.ResponseRecorder
	writes chan bool
	read   chan bool
}

func (s *stuck) Write(b []byte) (int, error) {
	s.writes <- true
	<-s.read
	return s.ResponseRecorder.Write(b)
}

// TestSlowClients: what they keep in memory is bounded, and goes with them.
func TestSlowClients(t *testing.T) {
	e, _ := demo(t, Options{}, tabletest.Spec())
	read, writes := make(chan bool), make(chan bool)
	var all sync.WaitGroup
	for i := range maxTurns {
		all.Go(func() {
			w := &stuck{httptest.NewRecorder(), writes, read}
			e.ServeHTTP(w, httptest.NewRequest("GET", fmt.Sprint("/metrics?top=", i+1), nil))
			if !strings.Contains(w.Body.String(), "dynprof_build_info") {
				t.Error("a slow client got nothing")
			}
		})
	}
	for range maxTurns {
		<-writes
	}
	e.turn.room = time.Millisecond
	if w := get(e, "/metrics"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many: status %d", w.Code)
	}
	e.turn.room = time.Hour
	late := make(chan int)
	go func() { late <- get(e, "/metrics").Code }()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		e.turn.mu.Lock()
		waits = e.turn.freed != nil
		e.turn.mu.Unlock()
	}
	close(read)
	if status := <-late; status != http.StatusOK {
		t.Errorf("who waited until one of them has read: status %d", status)
	}
	all.Wait()
	if w := get(e, "/metrics"); w.Code != http.StatusOK {
		t.Errorf("after they have gone: status %d", w.Code)
	}
}

// TestMalformedRequests: each is refused or dropped, and the next is answered.
func TestMalformedRequests(t *testing.T) {
	e, _ := demo(t, Options{}, tabletest.Spec())
	address := server(t, e)
	for _, request := range []string{
		"", "\x00\x01\x02\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "GET /metrics HTTP/9.9\r\n\r\n", "GET /metrics HTTP/1.1\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"GET /metrics?%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 100) + "\r\n",
		"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", // TLS
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, request)
		c.(*net.TCPConn).CloseWrite()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		answer, _ := bufio.NewReader(c).ReadString('\n')
		if answer != "" && !strings.HasPrefix(answer, "HTTP/1.1 4") && !strings.HasPrefix(answer, "HTTP/1.1 5") && !strings.Contains(request, "%zz") {
			t.Errorf("%.40q: %s", request, answer)
		}
		c.Close()
	}
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if s := parse(t, r.Body); s.total() != 2223 {
		t.Errorf("total %v", s.total())
	}
}

// BenchmarkHost is a scrape of 1,000 tables of 2,000 functions each, 4 threads.
func BenchmarkHost(b *testing.B) {
	dir := b.TempDir()
	spec := tabletest.Synthetic(2000)
	counts := make([]uint64, 2000)
	for i := range counts {
		counts[i] = uint64(i)
	}
	for i := range 1000 {
		spec.Program = fmt.Sprintf("/usr/local/bin/program%04d", i)
		live := tabletest.CreateAt(b, filepath.Join(dir, fmt.Sprintf("%d%s", i, tabledir.Ext)), spec)
		for row := range uint32(4) {
			live.Row(layout.Row{Index: row, State: layout.RowLive, Pid: 1, Tid: 1})
			live.Set(row, counts...)
		}
	}
	e := NewHost(func() []string { return []string{dir} }, 1<<62, Options{})
	b.Cleanup(e.Close)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		w := get(e, "/metrics", "Accept-Encoding", "gzip")
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
		b.ReportMetric(float64(w.Body.Len()), "bytes/scrape")
	}
}
