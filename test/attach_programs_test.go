//go:build long

package test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestAttachRedis: a server under load, its commands counted exactly, by its own counts of them.
func TestAttachRedis(t *testing.T) {
	const program = "/usr/bin/redis-server"
	needFile(t, program)
	dir := place(t, nil)
	dial := func() *redis {
		conn, err := net.Dial("unix", dir+"/socket")
		if err != nil {
			return nil
		}
		t.Cleanup(func() { conn.Close() })
		return &redis{t, conn, bufio.NewReader(conn)}
	}
	var client *redis
	s := start(t, dir, false, nil, func() bool { client = dial(); return client != nil },
		program, "--port", "0", "--unixsocket", dir+"/socket", "--dir", dir, "--save", "", "--io-threads", "3", "--io-threads-do-reads", "yes")
	benchmark := exec.Command(need(t, "redis-benchmark"), "-s", dir+"/socket", "-t", "set", "-n", "1000000000", "-c", "20", "-q")
	benchmark.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := benchmark.Start(); err != nil {
		t.Fatal(err)
	}
	p := &cycled{pid: s.Process.Pid, function: "setCommand", calm: func() uint64 {
		client.do("CLIENT", "PAUSE", "1000000", "WRITE")
		return client.called("set")
	}, wake: func() { client.do("CLIENT", "UNPAUSE") }}
	p.cycle(t, cyclesOf(30))
	p.cycleBlocks(t, cyclesOf(30)/5)
	benchmark.Process.Kill()
	if err := benchmark.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("redis-benchmark: %v", err)
	}
	fmt.Fprintf(client.conn, "*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n")
	s.stop(t, 0)
}

// TestAttachNginx: a worker under load.
func TestAttachNginx(t *testing.T) {
	const program = "/usr/sbin/nginx"
	needFile(t, program)
	dir := place(t, nil)
	conf := write(t, filepath.Join(dir, "conf"), `
daemon off; worker_processes 1; user root; pid `+dir+`/pid; error_log `+dir+`/error.log;
events { worker_connections 256; }
http {
	access_log off; keepalive_requests 1000000;
	client_body_temp_path `+dir+`/body; proxy_temp_path `+dir+`/proxy; fastcgi_temp_path `+dir+`/fastcgi;
	uwsgi_temp_path `+dir+`/uwsgi; scgi_temp_path `+dir+`/scgi;
	server { listen unix:`+dir+`/socket; location / { return 200 "here\n"; } }
}
`, 0o600)
	// get makes a client with a connection of its own.
	get := func() func() {
		conn, err := net.Dial("unix", dir+"/socket")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		in := bufio.NewReader(conn)
		return func() {
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: server\r\n\r\n")
			length := 0
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					t.Error(err)
					return
				}
				if n, ok := strings.CutPrefix(line, "Content-Length: "); ok {
					length, _ = strconv.Atoi(strings.TrimSpace(n))
				}
				if line == "\r\n" {
					break
				}
			}
			if body, err := io.ReadAll(io.LimitReader(in, int64(length))); err != nil || string(body) != "here\n" {
				t.Errorf("%q, %v", body, err)
			}
		}
	}
	var worker int
	s := start(t, dir, false, nil, func() bool {
		b, _ := os.ReadFile(dir + "/pid")
		master := strings.TrimSpace(string(b))
		list, _ := os.ReadFile("/proc/" + master + "/task/" + master + "/children")
		worker, _ = strconv.Atoi(strings.TrimSpace(string(list)))
		return worker != 0
	}, program, "-c", conf, "-p", dir)
	one := get()
	p := &cycled{pid: worker, function: "ngx_http_process_request", do: func(n int) {
		for range n {
			one()
		}
	}, loads: []func(){get(), get(), get()}}
	p.cycle(t, cyclesOf(30))
	p.cycleBlocks(t, cyclesOf(30)/5)
	s.Process.Signal(os.Interrupt)
	s.Wait()
}

// TestAttachPostgreSQL: a server that forks for each connection, and another user's.
func TestAttachPostgreSQL(t *testing.T) {
	db := newPostgres(t)
	s := db.serve(false)
	p := &cycled{pid: s.Process.Pid, function: "pg_parse_query", do: func(n int) {
		c := db.client("psql", "-q", "-At", "-f", "-")
		c.Stdin = strings.NewReader(strings.Repeat("select 1;\n", n))
		if out, err := c.CombinedOutput(); err != nil || string(out) != strings.Repeat("1\n", n) {
			t.Errorf("psql: %v\n%.300s", err, out)
		}
	}}
	db.do("pgbench", "-i", "-q", "-s", "1")
	for range 2 {
		p.loads = append(p.loads, func() { db.do("pgbench", "-n", "-c", "2", "-t", "3") })
	}
	p.cycle(t, cyclesOf(20))
	p.cycleBlocks(t, cyclesOf(20)/10)
	s.stop(t, syscall.SIGINT)
	if log := complaints(s.out.String()); log != "" {
		t.Error(log)
	}
}

// TestAttachNode: a program of 100,000 functions, with code that it makes itself.
func TestAttachNode(t *testing.T) {
	program := need(t, "node")
	c := exec.Command(program, "-e", `
const fs = require("fs");
let x = 0;
setInterval(() => { for (let i = 0; i < 100000; i++) x = Math.imul(x, 31) + i | 0; }, 5);
require("readline").createInterface({input: process.stdin}).on("line", n => { for (let i = 0; i < n; i++) fs.statSync("/"); console.log("done"); }).on("close", () => process.exit(0));
console.log("ready");`)
	a := converseAttached(t, c)
	p := &cycled{pid: c.Process.Pid, function: "uv_fs_stat", do: func(n int) {
		fmt.Fprintln(a.to, n)
		a.expect("done")
	}}
	p.cycle(t, cyclesOf(20))
	p.cycleBlocks(t, cyclesOf(20)/10)
	a.finish()
}
