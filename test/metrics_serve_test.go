package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestServe: what comes and goes is served for many programs, by TLS to who has
// the password.
func TestServe(t *testing.T) {
	lane.Parallel(t)
	openssl := need(t, "openssl")
	dir := t.TempDir()
	key, cert := filepath.Join(dir, "key.pem"), filepath.Join(dir, "cert.pem")
	if r := run(t, cmd(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")); r.status != 0 {
		t.Fatal(r.stderr)
	}
	const bcryptOfSecret = "$2y$04$pis2x26nyxJeZBaCdS7nx.T2IkamRCHUixfWjslhu9W82PIXg1Dk."
	config := write(t, filepath.Join(dir, "web.yml"), "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\nbasic_auth_users:\n  prometheus: "+bcryptOfSecret+"\n", 0o600)
	socket := filepath.Join(dir, "socket")
	c := exec.Command(build(t, "hotspots"), "serve", "--state", "", "--listen", "unix:"+socket, "--web-config", config, "--linger", "0s", dir)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	get := func(path, password string) string {
		r := run(t, cmd(need(t, "curl"), "--silent", "--show-error", "--retry", "50", "--retry-delay", "1", "--retry-all-errors", "--unix-socket", socket, "--cacert", cert, "--user", "prometheus:"+password, "https://127.0.0.1"+path))
		if r.status != 0 {
			t.Errorf("%s: %s", path, r.stderr)
		}
		return r.stdout
	}
	if s := get("/-/healthy", "secret"); s != "healthy\n" {
		t.Errorf("health: %s", s)
	}
	if s := get("/metrics", "wrong"); !strings.Contains(s, "Unauthorized") {
		t.Errorf("with a wrong password: %s", s)
	}
	if s := get("/", "secret"); !strings.Contains(s, "metrics") || strings.Contains(s, "debug/pprof") {
		t.Errorf("landing page: %s", s)
	}
	program := exec.Command(build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(dir, "cat.dynprof"), "--", "/bin/cat")
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	label := ""
	for limit := time.Now().Add(patience); label == "" && time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		for line := range strings.Lines(get("/metrics", "secret")) {
			if strings.HasPrefix(line, "dynprof_threads{") {
				label = line
			}
		}
	}
	pid := readReport(t, filepath.Join(dir, "cat.dynprof")).Pid
	if !strings.Contains(label, `pid="`+strconv.Itoa(pid)+`"`) || !strings.HasSuffix(label, " 1\n") {
		t.Errorf("threads: %s", label)
	}
	if s := get("/sd", "secret"); !strings.Contains(s, `"__param_pid":"`+strconv.Itoa(pid)+`"`) {
		t.Errorf("discovery: %s", s)
	}
	in.Close()
	program.Wait()
	for limit := time.Now().Add(patience); strings.Contains(get("/metrics", "secret"), "program="); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("a program that has ended is served for ever")
		}
	}
	c.Process.Signal(syscall.SIGTERM)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket stays")
	}
}

// TestServeStartedAgain: hotspots serve is killed and started again: all counters
// go on where they were, while the program goes on and its functions change
// places.
func TestServeStartedAgain(t *testing.T) {
	lane.Parallel(t)
	s := serve(t)
	dir := t.TempDir()
	socket := "unix:" + filepath.Join(dir, "socket")
	env := []string{"XDG_RUNTIME_DIR=" + dir}
	start := func() *exec.Cmd {
		return background(t, env, build(t, "hotspots"), "serve", "--top", "2", "--listen", socket, filepath.Dir(s.table))
	}
	c := start()
	last := scrapeAt(t, socket)
	for i := range 4 {
		s.rounds(20 * (i + 1))
		now := scrapeAt(t, socket)
		now.monotone(t, last)
		c.Process.Kill()
		c.Wait()
		c = start()
		again := scrapeAt(t, socket)
		again.monotone(t, now)
		if len(again.calls) != len(now.calls) || again.total() > now.total()+5 { // what reads the next line was on its way
			t.Errorf("started again: %+v, %+v before", again, now)
		}
		if want := float64(readReport(t, s.table).TotalCalls); again.total() != want {
			t.Errorf("%v calls, the report has %v", again.total(), want)
		}
		last = again
	}
	files, err := filepath.Glob(filepath.Join(dir, "dynprof", "serve-unix-*.series"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if fi, err := os.Stat(files[0]); err != nil || fi.Mode() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	s.finish()
}
