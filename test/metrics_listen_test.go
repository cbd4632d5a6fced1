package test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// serveListening is serve with an endpoint, at its address.
func serveListening(t *testing.T, flags ...string) (*served, string) {
	t.Helper()
	s := serve(t, flags...)
	at := address(t, s.table)
	if at == "" {
		t.Fatal("no address in the list")
	}
	return s, at
}

// finish ends the program.
func (s *served) finish() {
	s.t.Helper()
	s.to.Close()
	if line, _ := s.from.ReadString('\n'); line != "ok\n" {
		s.t.Errorf("the program says %q", line)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Error(err)
	}
}

// TestListen: every scrape has the exact total, to the end; the program has no
// socket; the endpoint goes after the last scrape.
func TestListen(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{}, {"--control"}, {"--threshold", "20"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			s, at := serveListening(t, append(flags, "--listen", "127.0.0.1:0", "--linger", "1m")...)
			last := scrapeAt(t, at)
			for range 10 {
				s.rounds(20)
				now := scrapeAt(t, at)
				now.monotone(t, last)
				if want := readReport(t, s.table).TotalCalls; now.total() != float64(want) {
					t.Errorf("%v calls, the report has %d", now.total(), want)
				}
				last = now
			}
			pid := readReport(t, s.table).Pid
			links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
			for _, l := range links {
				if to, _ := os.Readlink(l); strings.HasPrefix(to, "socket:") {
					t.Errorf("the program has %s", to)
				}
			}
			if flags := strings.Join(flags, ""); flags == "--control" {
				s.hotspots("pause", s.table)
				s.rounds(10)
				if now := scrapeAt(t, at); now.total() > last.total()+5 { // what reads the next line is on its way
					t.Errorf("paused, and %v calls after %v", now.total(), last.total())
				}
				s.hotspots("resume", s.table)
			}
			s.finish()
			if now, want := scrapeAt(t, at), readReport(t, s.table).TotalCalls; now.total() != float64(want) {
				t.Errorf("at the end %v calls, the report has %d", now.total(), want)
			}
			closed(t, at)
		})
	}
}

// preload runs a program with the library and nothing of hotspots.
func preload(t testing.TB, library, table string, c command, env ...string) result {
	c.env = append([]string{"LD_PRELOAD=" + library, "DYNPROF_OUTPUT=" + table, "DYNPROF_LINGER=0s"}, env...)
	return run(t, c)
}

// TestListenRefuses: what cannot be served is said in one line, and the program
// is counted.
func TestListenRefuses(t *testing.T) {
	lane.Parallel(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	alone := filepath.Join(t.TempDir(), "libdynprof.so")
	write(t, alone, read(t, build(t, "libdynprof.so")), 0o700)
	file := write(t, filepath.Join(t.TempDir(), "file"), "x", 0o600)
	for _, row := range []struct{ library, listen, env, says string }{
		{build(t, "libdynprof.so"), "somewhere:1", "", "no IP address"},
		{build(t, "libdynprof.so"), "1.2.3.4:1", "", "metrics are not served: 1.2.3.4:1: bind"},
		{build(t, "libdynprof.so"), "unix:" + file, "", "no socket is there"},
		{build(t, "libdynprof.so"), "unix:/missing/socket", "", "no such file"},
		{build(t, "libdynprof.so"), busy.Addr().String(), "", "already in use: metrics are served when it is free"},
		{build(t, "libdynprof.so"), "127.0.0.1:0", "DYNPROF_HOTSPOTS=/missing", "/missing: stat /missing: no such file"},
		{alone, "127.0.0.1:0", "", "no hotspots beside the library"},
	} {
		table := filepath.Join(t.TempDir(), "table")
		r := preload(t, row.library, table, cmd("/bin/echo", "hello"), "DYNPROF_LISTEN="+row.listen, row.env)
		oneLine(t, r.stderr, row.says, "")
		if r.stdout != "hello\n" || r.status != 0 || readReport(t, table).TotalCalls == 0 {
			t.Errorf("%s: status %d, %q", row.listen, r.status, r.stdout)
		}
	}
	r := run(t, cmd(build(t, "hotspots"), "run", "--listen", "nonsense", "--", "true"))
	oneLine(t, r.stderr, "--listen", "")
	if r.status != 125 {
		t.Errorf("status %d", r.status)
	}
}

// TestListenSocket: a unix socket is its owner's, and goes with the endpoint.
func TestListenSocket(t *testing.T) {
	lane.Parallel(t)
	path := filepath.Join(t.TempDir(), "socket")
	s, at := serveListening(t, "--listen", "unix:"+path, "--linger", "0s")
	if at != "unix:"+path {
		t.Errorf("the address is %s", at)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	scrapeAt(t, at)
	s.finish()
	closed(t, at)
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket stays")
	}
}

// TestListenAgain: a program that starts while the endpoint of the one before
// still has the address gets it.
func TestListenAgain(t *testing.T) {
	lane.Parallel(t)
	first, at := serveListening(t, "--listen", "127.0.0.1:0", "--linger", "1m")
	pid := readReport(t, first.table).Pid
	second := &strings.Builder{}
	table := filepath.Join(t.TempDir(), "second")
	c := exec.Command(build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--listen", at, "--linger", "0s", "--", "/bin/cat")
	c.Stderr = second
	in, out := converse(t, c)
	io.WriteString(in, "x")
	io.ReadFull(out, make([]byte, 1)) // it runs
	syscall.Kill(pid, syscall.SIGKILL)
	first.cmd.Wait()
	scrapeAt(t, at) // the last of the first, which then goes
	want := float64(readReport(t, first.table).TotalCalls)
	for limit := time.Now().Add(patience); scrapeAt(t, at).total() == want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the second does not come")
		}
	}
	in.Close()
	io.Copy(io.Discard, out)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	oneLine(t, second.String(), "served when it is free", "")
	closed(t, at)
}

// TestListenEnds: with the last process of the tree, whatever the first one
// does: a daemon, an exec, all descriptors closed, a first process that adopts.
func TestListenEnds(t *testing.T) {
	lane.Parallel(t)
	p := controlled(t, "gcc", "-O1")
	t.Run("exec", func(t *testing.T) {
		table := filepath.Join(t.TempDir(), "a.dynprof")
		c := exec.Command("/bin/sh", "-c", "read x; exec /bin/cat")
		c.Env = append(os.Environ(), "LD_PRELOAD="+build(t, "libdynprof.so"), "DYNPROF_OUTPUT="+table, "DYNPROF_LISTEN=0", "DYNPROF_LINGER=0s")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for limit := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			if r := run(t, cmd(build(t, "hotspots"), "ls", filepath.Dir(table))); strings.Contains(r.stdout, "running") || time.Now().After(limit) {
				break
			}
		}
		at := address(t, table)
		scrapeAt(t, at)
		io.WriteString(in, "\n")
		closed(t, at) // while the process lives
		if r := run(t, cmd(build(t, "hotspots"), "ls", filepath.Dir(table))); !strings.Contains(r.stdout, "exited") {
			t.Errorf("after exec: %s", r.stdout)
		}
		in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("daemon", func(t *testing.T) {
		dir := t.TempDir()
		in, out, table := filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "a.dynprof")
		for _, fifo := range []string{in, out} {
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if r := run(t, cmd(build(t, "hotspots"), "run", "--listen", "0", "--linger", "0s", "-o", table, "--summary", "0", "--", p, "daemon", in, out)); r.status != 0 || r.stderr != "" {
			t.Fatalf("status %d: %s", r.status, r.stderr)
		}
		to, err := os.OpenFile(in, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		from, err := os.OpenFile(out, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		at := address(t, table)
		scrapeAt(t, at)
		time.Sleep(1200 * time.Millisecond) // the endpoint has looked twice
		scrapeAt(t, at)
		to.Close()
		closed(t, at)
	})
	t.Run("unseen", func(t *testing.T) { // by the program's wait and SIGCHLD, before and after exec
		for _, mode := range []string{"alone", "exec"} {
			r, _ := counted(t, cmd(p, mode), "--listen", "0", "--linger", "0s")
			ok(t, r)
		}
		unshare := []string{need(t, "unshare"), "-Urpf", "--mount-proc"}
		if r := run(t, cmd(append(unshare, "true")...)); r.status != 0 {
			t.Skipf("no namespaces here: %s", r.stderr)
		}
		c := append(unshare, "env", "DYNPROF_LISTEN=0", "DYNPROF_LINGER=0s", "DYNPROF_OUTPUT="+filepath.Join(t.TempDir(), "table"),
			"LD_PRELOAD="+build(t, "libdynprof.so"), p, "adopt")
		ok(t, run(t, cmd(c...)))
	})
}

// TestScrapedWhileItForks: an endless scrape from all sides changes no count.
func TestScrapedWhileItForks(t *testing.T) {
	lane.Parallel(t)
	for _, row := range []struct{ source, name, args string }{
		{"threads.c", "churn", "churn 2000"}, {"forks.c", "forks", ""}, {"storms.c", "storm", "levels 300"}, {"storms.c", "deaths", "deaths 90"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := compile(t, need(t, "gcc"), []string{"-O1"}, row.source)
			c := cmd(append([]string{p}, strings.Fields(row.args)...)...)
			without := run(t, c)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			at := l.Addr().String()
			l.Close()
			stop, done := make(chan bool), make(chan int)
			for range 4 {
				go func() {
					n := 0
					last := &scrapes{}
					for ended := false; ; {
						s, err := scrapeOnce(at)
						switch {
						case err == nil:
							s.monotone(t, last)
							last = s
							n++
						case ended && noListener(err): // after the last scrape
							done <- n
							return
						}
						select {
						case <-stop:
							ended = true
						default:
						}
					}
				}()
			}
			with, r := counted(t, c, "--listen", at, "--linger", "1m")
			close(stop)
			n := 0
			for range 4 {
				n += <-done
			}
			same(t, without.withoutTallies(), with.withoutTallies())
			selfCounting(t, comparison{exempt: untallied()}, with, r)
			if n == 0 {
				t.Error("nobody scraped")
			}
			t.Logf("%d scrapes", n)
			closed(t, at)
		})
	}
}
