package test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestDeploy: what is in deploy/ is what the programs that read it accept.
func TestDeploy(t *testing.T) {
	lane.Parallel(t)
	t.Run("rules", func(t *testing.T) {
		promtool := needAlso(t, "promtool")
		for _, args := range [][]string{{"check", "rules", "dynprof.rules.yml"}, {"test", "rules", "dynprof.rules.test.yml"}, {"check", "config", "--syntax-only", "prometheus.yml"}, {"check", "config", "prometheus-local.yml"}} {
			c := cmd(append([]string{promtool}, args...)...)
			c.dir = "../deploy/prometheus"
			if r := run(t, c); r.status != 0 {
				t.Errorf("%v: %s%s", args, r.stdout, r.stderr)
			}
		}
	})
	t.Run("web.yml", func(t *testing.T) { // its password is taken, with a certificate
		dir := t.TempDir()
		text := strings.ReplaceAll(read(t, "../deploy/web.yml"), "/etc/dynprof/", dir+"/")
		write(t, filepath.Join(dir, "web.yml"), text, 0o600)
		if r := run(t, cmd(need(t, "openssl"), "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=localhost", "-keyout", filepath.Join(dir, "key.pem"), "-out", filepath.Join(dir, "cert.pem"))); r.status != 0 {
			t.Fatal(r.stderr)
		}
		at := freePort(t)
		background(t, nil, build(t, "hotspots"), "serve", "--listen", at, "--web-config", filepath.Join(dir, "web.yml"), "--state", "", dir)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		for password, want := range map[string]int{"change-me": 200, "wrong": 401} {
			request, err := http.NewRequest("GET", "https://"+at+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			request.SetBasicAuth("prometheus", password)
			r, err := client.Do(request)
			for err != nil && errors.Is(err, syscall.ECONNREFUSED) { // it is not there yet
				time.Sleep(10 * time.Millisecond)
				r, err = client.Do(request)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Body.Close(); r.StatusCode != want {
				t.Errorf("%s: %s", password, r.Status)
			}
		}
	})
	t.Run("metrics", func(t *testing.T) {
		promtool := needAlso(t, "promtool")
		s, at := serveListening(t, "--listen", "127.0.0.1:0", "--linger", "0s")
		r, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		c := cmd(promtool, "check", "metrics")
		c.stdin = string(text)
		if r := run(t, c); r.status != 0 || r.stdout+r.stderr != "" {
			t.Errorf("promtool check metrics: %s%s", r.stdout, r.stderr)
		}
		s.finish()
	})
	t.Run("systemd", func(t *testing.T) {
		analyze := needAlso(t, "systemd-analyze")
		dir := t.TempDir()
		for _, name := range []string{"dynprof-serve.service", "dynprof-serve.socket"} {
			text := strings.ReplaceAll(read(t, "../deploy/systemd/"+name), "/usr/bin/hotspots", build(t, "hotspots"))
			write(t, filepath.Join(dir, name), text, 0o644)
		}
		if r := run(t, cmd(analyze, "verify", "--man=no", filepath.Join(dir, "dynprof-serve.service"), filepath.Join(dir, "dynprof-serve.socket"))); r.status != 0 || strings.Contains(r.stderr, "dynprof-serve") {
			t.Errorf("%s%s", r.stdout, r.stderr)
		}
	})
	t.Run("systemd-socket-activate", func(t *testing.T) { // by systemd's own program, at the first connection
		activate := needAlso(t, "systemd-socket-activate")
		at, state := freePort(t), t.TempDir()
		background(t, nil, activate, "-l", at, "-E", "STATE_DIRECTORY="+state, build(t, "hotspots"), "serve", "--systemd-socket", t.TempDir())
		if s := scrapeAt(t, at); s.total() != 0 {
			t.Errorf("%v calls", s.total())
		}
		if fi, err := os.Stat(filepath.Join(state, "series")); err != nil || fi.Mode() != 0o600 {
			t.Errorf("what the unit's StateDirectory is for: %v, %v", fi, err)
		}
	})
	t.Run("socket activation", func(t *testing.T) { // as systemd does it: sd_listen_fds(3)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command("/bin/sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec "+build(t, "hotspots")+" serve --systemd-socket "+t.TempDir())
		c.ExtraFiles = []*os.File{f}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { c.Process.Kill(); c.Wait() }()
		l.Close()
		f.Close()
		if s := scrapeAt(t, l.Addr().String()); s.total() != 0 {
			t.Errorf("%v calls", s.total())
		}
	})
}
