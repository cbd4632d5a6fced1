//go:build long

package test

import (
	"bytes"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// server is a server of the distribution that runs.
type server struct {
	*exec.Cmd
	out   bytes.Buffer // of stdout and stderr
	table string       // if it is counted
}

// place makes a directory whose path is short enough for a socket, and which
// belongs to the user that the server runs as.
func place(t *testing.T, as *syscall.Credential) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "server")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// start starts a server in dir and waits until ready says so. It is killed at
// the end of the test, if it still runs.
func start(t *testing.T, dir string, counted bool, as *syscall.Credential, ready func() bool, args ...string) *server {
	t.Helper()
	s := &server{Cmd: exec.Command(args[0], args[1:]...)}
	s.Dir, s.Stdout, s.Stderr = dir, &s.out, &s.out
	s.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
	if counted {
		s.table = filepath.Join(dir, "table")
		s.Env = append(os.Environ(), "LD_PRELOAD="+build(t, "libdynprof.so"), "DYNPROF_OUTPUT="+s.table)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.ProcessState == nil {
			s.Process.Kill()
			s.Wait()
		}
	})
	until(t, ready, args[0]+" is not ready")
	return s
}

// stop ends a server by a signal, unless that is 0 and it ends by itself. It
// returns the report if it is counted.
func (s *server) stop(t *testing.T, sig syscall.Signal) *report {
	t.Helper()
	if sig != 0 {
		s.Process.Signal(sig)
	}
	hangs := time.AfterFunc(patience, func() {
		t.Errorf("%s does not stop", s.Path)
		s.Process.Kill()
	})
	defer hangs.Stop()
	if err := s.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", s.Path, err, s.out.String())
	}
	if s.table == "" {
		return nil
	}
	r := readReport(t, s.table)
	if err := os.Remove(s.table); err != nil {
		t.Fatal(err)
	}
	return r
}

// called returns the addresses of the program's functions that were called n
// times.
func (r *report) called(n int) map[string]bool {
	at := map[string]bool{}
	for _, f := range r.Functions {
		if f.Object == r.Program && f.Calls == uint64(n) {
			at[f.Address] = true
		}
	}
	return at
}

// calibrated finds the functions that are called once for each of something, in
// programs without names: those called as often as there were things, in run
// after run, each with another number.
func calibrated(t *testing.T, run func(n int) *report, numbers ...int) map[string]bool {
	t.Helper()
	var all map[string]bool
	for _, n := range numbers {
		called := run(n).called(n)
		for at := range all {
			if !called[at] {
				delete(all, at)
			}
		}
		if all == nil {
			all = called
		}
	}
	if len(all) == 0 {
		t.Fatalf("no function was called %v times", numbers)
	}
	return all
}

// exactly fails unless the functions were called n times.
func (r *report) exactly(t *testing.T, at map[string]bool, n int) {
	t.Helper()
	called := r.called(n)
	for _, f := range r.Functions {
		if f.Object == r.Program && at[f.Address] && !called[f.Address] {
			t.Errorf("%s at %s: %d calls, not %d", f.Name, f.Address, f.Calls, n)
		}
	}
	t.Logf("%d functions with %d calls each", len(at), n)
}

// postgresUser is whom PostgreSQL runs as: it refuses root. nil is who runs the
// test.
func postgresUser(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Skip("no user postgres on this machine")
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// postgres is a cluster of databases of PostgreSQL's.
type postgres struct {
	t   *testing.T
	dir string
	as  *syscall.Credential
}

const postgresBin = "/usr/lib/postgresql/15/bin/"

func newPostgres(t *testing.T) *postgres {
	t.Helper()
	needFile(t, postgresBin+"postgres", postgresBin+"initdb", postgresBin+"pgbench")
	p := &postgres{t: t, as: postgresUser(t)}
	p.dir = place(t, p.as)
	p.do("initdb", "-D", p.dir+"/data", "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C")
	return p
}

// client is one of its programs, which connects to it.
func (p *postgres) client(args ...string) *exec.Cmd {
	e := exec.Command(postgresBin+args[0], args[1:]...)
	e.Dir, e.SysProcAttr = p.dir, &syscall.SysProcAttr{Credential: p.as}
	e.Env = append(os.Environ(), "PGHOST="+p.dir, "PGDATABASE=postgres", "PGUSER=postgres")
	return e
}

func (p *postgres) do(args ...string) string {
	p.t.Helper()
	out, err := p.client(args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (p *postgres) serve(counted bool) *server {
	p.t.Helper()
	ready := func() bool { return p.client("pg_isready", "-q").Run() == nil }
	return start(p.t, p.dir, counted, p.as, ready, postgresBin+"postgres", "-D", p.dir+"/data", "-k", p.dir, "-c", "listen_addresses=", "-c", "fsync=off")
}

// TestServerPostgreSQL: the postmaster and its backends, as a user of their own.
func TestServerPostgreSQL(t *testing.T) {
	p := newPostgres(t)
	const clients, transactions = 4, 100
	bench := func() (log, sums string) {
		p.do("pgbench", "-i", "-q", "-s", "1")
		out := p.do("pgbench", "-n", "-c", strconv.Itoa(clients), "-j", "2", "-t", strconv.Itoa(transactions))
		for _, want := range []string{"actually processed: 400/400", "failed transactions: 0"} {
			if !strings.Contains(out, want) {
				t.Errorf("pgbench does not say %q:\n%s", want, out)
			}
		}
		return out, p.do("psql", "-At", "-c", `select count(*), sum(delta) = (select sum(abalance) from pgbench_accounts),
			sum(delta) = (select sum(bbalance) from pgbench_branches), sum(delta) = (select sum(tbalance) from pgbench_tellers) from pgbench_history`)
	}
	without := p.serve(false)
	_, want := bench()
	without.stop(t, syscall.SIGINT)
	with := p.serve(true)
	_, got := bench()
	r := with.stop(t, syscall.SIGINT)
	if got != want || got != "400|t|t|t\n" {
		t.Errorf("the sums are %q, without the library %q", got, want)
	}
	if a, b := complaints(without.out.String()), complaints(with.out.String()); b != a {
		t.Errorf("the server says\n%s\nand without the library\n%s", b, a)
	}
	// pgbench says BEGIN and END once in a transaction, and once each when it
	// fills the tables.
	for _, name := range []string{"BeginTransactionBlock", "EndTransactionBlock"} {
		if n := r.calls(t, name); n != clients*transactions+1 {
			t.Errorf("%s: %d calls, not %d", name, n, clients*transactions+1)
		}
	}
}

// complaints are the lines of a log that tell of trouble.
func complaints(log string) string {
	var lines []string
	for _, line := range strings.Split(log, "\n") {
		for _, word := range []string{"WARNING:", "ERROR:", "FATAL:", "PANIC:", "terminated by signal", "dynprof:"} {
			if _, after, ok := strings.Cut(line, word); ok && !strings.Contains(after, "is starting up") && !strings.Contains(after, "administrator command") {
				lines = append(lines, word+after)
			}
		}
	}
	return strings.Join(lines, "\n")
}
