//go:build long

package test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// redis speaks to a Redis server.
type redis struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// do sends a command and returns the answer: a line, or a string behind its length.
func (r *redis) do(args ...string) string {
	r.t.Helper()
	fmt.Fprintf(r.conn, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(r.conn, "$%d\r\n%s\r\n", len(a), a)
	}
	line, err := r.in.ReadString('\n')
	if err != nil || line[0] == '-' {
		r.t.Fatalf("%v: %s%v", args, line, err)
	}
	line = strings.TrimSpace(line)
	if line[0] != '$' {
		return line[1:]
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil {
		r.t.Fatal(err)
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(r.in, text); err != nil {
		r.t.Fatal(err)
	}
	return string(text[:n])
}

// called is how often a command was carried out, by Redis' own statistics.
func (r *redis) called(command string) uint64 {
	r.t.Helper()
	_, line, _ := strings.Cut(r.do("INFO", "commandstats"), "cmdstat_"+command+":calls=")
	line, _, _ = strings.Cut(line, ",")
	n, err := strconv.ParseUint(line, 10, 64)
	if err != nil {
		r.t.Errorf("Redis does not say how often it was told %s: %v", command, err)
	}
	return n
}

// TestServerRedis: what Redis' child counts while it saves, beside its parent.
func TestServerRedis(t *testing.T) {
	const program = "/usr/bin/redis-server"
	needFile(t, program)
	dir := place(t, nil)
	serve := func(counted bool) (*server, *redis) {
		var conn net.Conn
		s := start(t, dir, counted, nil, func() bool {
			var err error
			conn, err = net.Dial("unix", dir+"/socket")
			return err == nil
		}, program, "--port", "0", "--unixsocket", dir+"/socket", "--dir", dir, "--save", "", "--enable-debug-command", "yes")
		t.Cleanup(func() { conn.Close() })
		r := &redis{t, conn, bufio.NewReader(conn)}
		until(t, func() bool { return strings.Contains(r.do("INFO", "persistence"), "\nloading:0") }, "Redis does not load")
		return s, r
	}
	quit := func(s *server, r *redis) *report {
		fmt.Fprintf(r.conn, "*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n")
		return s.stop(t, 0)
	}
	// fill makes n keys, saves them saves times in a child, and returns the
	// digest of the data.
	fill := func(r *redis, n, saves int) string {
		for i := range n {
			r.do("SET", fmt.Sprintf("key:%d", i), strings.Repeat("value", i%50))
		}
		for range saves {
			r.do("BGSAVE")
			for i := 0; !strings.Contains(r.do("INFO", "persistence"), "rdb_bgsave_in_progress:0"); i++ {
				r.do("SET", "key:0", "while it is saved") // pages are copied
			}
		}
		return r.do("DEBUG", "DIGEST")
	}
	saved := func() string { // what is in the file
		s, r := serve(false)
		defer quit(s, r)
		if n := r.do("DBSIZE"); n == "0" {
			t.Error("nothing was saved")
		}
		return r.do("DEBUG", "DIGEST")
	}
	run := func(n, saves int) *report {
		os.Remove(dir + "/dump.rdb")
		s, r := serve(true)
		fill(r, n, saves)
		return quit(s, r)
	}
	for _, counted := range []bool{false, true} {
		os.Remove(dir + "/dump.rdb")
		s, r := serve(counted)
		r.do("SET", "key:0", "while it is saved")
		want := fill(r, 5000, 0)
		r.do("BGSAVE")
		until(t, func() bool { return strings.Contains(r.do("INFO", "persistence"), "rdb_bgsave_in_progress:0") }, "Redis does not save")
		if !strings.Contains(r.do("INFO", "persistence"), "rdb_last_bgsave_status:ok") {
			t.Error("BGSAVE failed")
		}
		quit(s, r)
		if got := saved(); got != want {
			t.Errorf("counted %t: the file holds %s, not %s", counted, got, want)
		}
	}
	// Only the child walks over the keys, and as often as there are saves.
	perKey := calibrated(t, func(n int) *report { return run(n/3, 3) }, 3*700, 3*1101)
	run(4000, 5).exactly(t, perKey, 5*4000)
}

// TestServerNginx: workers that come and go under load.
func TestServerNginx(t *testing.T) {
	const program = "/usr/sbin/nginx"
	needFile(t, program)
	dir := place(t, nil)
	conf := write(t, filepath.Join(dir, "conf"), `
daemon off;
worker_processes 3;
pid `+dir+`/pid;
error_log `+dir+`/error.log;
events { worker_connections 256; }
http {
	access_log `+dir+`/access.log;
	client_body_temp_path `+dir+`/body; proxy_temp_path `+dir+`/proxy; fastcgi_temp_path `+dir+`/fastcgi;
	uwsgi_temp_path `+dir+`/uwsgi; scgi_temp_path `+dir+`/scgi;
	server {
		listen unix:`+dir+`/socket;
		location / { return 200 "here\n"; }
	}
}
`, 0o600)
	dial := func() (net.Conn, error) { return net.Dial("unix", dir+"/socket") }
	// load sends n requests by so many clients, a connection for each request or
	// one for each client.
	load := func(n, clients int, keep bool) {
		var left atomic.Int64
		left.Store(int64(n))
		var all sync.WaitGroup
		for range clients {
			all.Add(1)
			go func() {
				defer all.Done()
				transport := &http.Transport{DisableKeepAlives: !keep, DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() }}
				defer transport.CloseIdleConnections()
				client := &http.Client{Transport: transport, Timeout: patience}
				for left.Add(-1) >= 0 {
					answer, err := client.Get("http://server/")
					if err != nil {
						t.Error(err)
						return
					}
					body, err := io.ReadAll(answer.Body)
					answer.Body.Close()
					if err != nil || string(body) != "here\n" {
						t.Errorf("%q, %v", body, err)
					}
				}
			}()
		}
		all.Wait()
	}
	run := func(n, clients int, keep bool, reloads int) *report {
		os.Remove(dir + "/access.log")
		s := start(t, dir, true, nil, func() bool {
			if _, err := os.Stat(dir + "/pid"); err != nil {
				return false // it listens before it has handlers for signals
			}
			conn, err := dial()
			if err == nil {
				conn.Close()
			}
			return err == nil
		}, program, "-p", dir, "-c", conf)
		for i := range reloads + 1 {
			done := make(chan bool)
			go func() {
				load(n/(reloads+1), clients, keep)
				close(done)
			}()
			if i < reloads {
				s.Process.Signal(syscall.SIGHUP)
			}
			<-done
		}
		r := s.stop(t, syscall.SIGQUIT)
		if lines := strings.Count(read(t, dir+"/access.log"), "\n"); lines != n {
			t.Errorf("%d lines in the access log, not %d", lines, n)
		}
		if log := s.out.String(); log != "" {
			t.Error(log)
		}
		return r
	}
	perRequest := calibrated(t, func(n int) *report { return run(n, 7, n%2 == 0, 0) }, 300, 451, 620)
	run(6000, 8, false, 5).exactly(t, perRequest, 6000)
	run(6000, 8, true, 0).exactly(t, perRequest, 6000)
}

// TestServerPython: processes that multiprocessing makes, and a function of a
// library that each calls.
func TestServerPython(t *testing.T) {
	const program = "/usr/bin/python3.11"
	needFile(t, program, "/lib/x86_64-linux-gnu/libz.so.1")
	script := write(t, filepath.Join(t.TempDir(), "pool.py"), `
import multiprocessing, sys, threading, zlib

def work(i):
    crc = 0
    for k in range(i % 50):
        crc = zlib.crc32(b"x" * k, crc)
    return crc

def both(i):
    t = threading.Thread(target=work, args=(i,))
    t.start()
    crc = work(i)
    t.join()
    return crc

if __name__ == "__main__":
    how, processes, items = sys.argv[1], int(sys.argv[2]), range(int(sys.argv[3]))
    if how == "alone":
        print(sum(map(work, items)))
    else:
        multiprocessing.set_start_method(how)
        with multiprocessing.Pool(processes, maxtasksperchild=40) as pool:
            print(sum(pool.imap_unordered(both, items, chunksize=3)))
`, 0o600)
	crcs := func(path string) (n uint64) {
		for _, f := range readReport(t, path).Functions {
			if f.Name == "crc32" && strings.Contains(f.Object, "libz.so") {
				n += f.Calls
			}
		}
		return n
	}
	const items = 2000
	alone, path := countedAt(t, cmd(program, script, "alone", "1", strconv.Itoa(items)))
	once := crcs(path)
	if once != items/50*49*50/2 {
		t.Errorf("one process calls crc32 %d times", once)
	}
	for _, how := range []string{"fork", "forkserver", "spawn"} {
		with, tables := countedTables(t, cmd(program, script, how, "4", strconv.Itoa(items)), "%p.%e", "--follow-exec")
		same(t, alone, with)
		var n uint64
		for _, path := range tables {
			// The pool ends its workers, also one that has just been started.
			if early := run(t, cmd(build(t, "hotspots"), "report", path)); early.status != 0 && strings.Contains(early.stderr, "was ended while it did") {
				t.Log(early.stderr)
				continue
			}
			n += crcs(path)
		}
		if n != 2*once {
			t.Errorf("%s: %d calls of crc32 in %d tables, not %d", how, n, len(tables), 2*once)
		}
		t.Logf("%s: %d tables", how, len(tables))
	}
}
