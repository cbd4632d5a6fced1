package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/ptrace"
)

// state is what somebody outside sees of the program: mappings, the bytes of its code,
// descriptors, handlers.
func (a *attached) state() string {
	a.t.Helper()
	s, err := ptrace.ReadStatus(a.c.Process.Pid, a.c.Process.Pid)
	if err != nil {
		a.t.Fatal(err)
	}
	return fmt.Sprintf("%s%v\n%q\nhandlers %x", strings.Join(a.mappings(), ""), codeSums(a.t, a.pid()), a.descriptors(), s.Caught)
}

// named are the lines of a state without those of memory that has no name: a Go runtime maps
// it whenever it likes.
func named(state string) string {
	var lines []string
	for line := range strings.Lines(state) {
		if !strings.HasSuffix(line, " 00:00 0 \n") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// finish closes the program's stdin: it ends by itself, with status 0.
func (a *attached) finish() {
	a.t.Helper()
	a.to.Close()
	a.ends()
}

func (a *attached) status() ptrace.Status {
	s, err := ptrace.ReadStatus(a.c.Process.Pid, a.c.Process.Pid)
	if err != nil {
		a.t.Fatal(err)
	}
	return *s
}

// goWaits builds the Go program that waits.
func goWaits(t *testing.T, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	c := exec.Command(need(t, "go"), slices.Concat([]string{"build", "-o", program}, flags, []string{"main.go"})...)
	c.Dir = "testdata/waits"
	c.Env = append(os.Environ(), "CGO_ENABLED=1", "GOFLAGS=", "GOWORK=off")
	if msg, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, msg)
	}
	return program
}

// TestAttachRefused: who cannot be attached to is told why, and what to do, in a line, with
// status 1, and is not touched.
func TestAttachRefused(t *testing.T) {
	lane.Parallel(t)
	program := func(compiler string, flags []string, source string, args ...string) func(t *testing.T) *attached {
		return func(t *testing.T) *attached {
			return startAttached(t, append([]string{compile(t, need(t, compiler), flags, source)}, args...)...)
		}
	}
	usual := func(args ...string) func(t *testing.T) *attached {
		return program("gcc", []string{"-O1"}, "attached.c", append([]string{"1"}, args...)...)
	}
	filtered := func(how string) func(t *testing.T) *attached {
		return func(t *testing.T) *attached {
			rootOnly(t, "cannot read filters")
			return usual("seccomp=" + how)(t)
		}
	}
	const more = "has a seccomp filter that may do more to a system call of ours than refuse it: start it with hotspots run"
	for _, row := range []struct {
		name, why string
		start     func(t *testing.T) *attached
	}{
		{"32 bits", "is no 64-bit program for x86-64: build it for x86-64", program("gcc", []string{"-m32", "-nostdlib", "-static", "-no-pie"}, "waits32.S")},
		{"Go", "has a Go runtime and a libc: start it with hotspots run", func(t *testing.T) *attached { return startAttached(t, goWaits(t, "-ldflags=-linkmode=external")) }},
		{"static Go", "has a Go runtime and a libc: start it with hotspots run", func(t *testing.T) *attached {
			return startAttached(t, goWaits(t, "-ldflags=-linkmode=external -extldflags=-static"))
		}},
		{"by the dynamic linker", "was called to run a program: start that by its own name", func(t *testing.T) *attached {
			return startAttached(t, "/lib64/ld-linux-x86-64.so.2", compile(t, need(t, "gcc"), nil, "waits.c"))
		}},
		{"mlockall", "has locked all its memory (mlockall): start it with hotspots run", usual("locked")},
		{"seccomp kills", more, filtered("kills")},
		{"seccomp kills a thread", more, filtered("kills-thread")},
		{"seccomp traps", more, filtered("traps")},
		{"seccomp asks a tracer", more, filtered("asks-tracer")},
		{"seccomp asks", more, filtered("asks")},
		{"seccomp refuses mmap", "has a seccomp filter that may refuse mmap: start it with hotspots run", filtered("mmap")},
		{"seccomp and addresses", "has a seccomp filter that looks at where system calls are made: start it with hotspots run", filtered("addresses")},
		{"GS", "uses the GS segment: start it with hotspots run", usual("gs")},
		{"counted", "is counted already: hotspots report ", func(t *testing.T) *attached {
			a := usual()(t)
			a.attach()
			return a
		}},
		{"stopped", "is stopped: continue it first (kill -CONT ", func(t *testing.T) *attached {
			a := usual()(t)
			a.c.Process.Signal(syscall.SIGSTOP)
			until(t, func() bool { return a.status().State == 'T' }, "it does not stop")
			return a
		}},
		{"traced", "is traced already, by strace", func(t *testing.T) *attached {
			a := usual()(t)
			s := exec.Command(need(t, "strace"), "-e", "trace=none", "-f", "-o", "/dev/null", "-p", a.pid())
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Process.Signal(os.Interrupt); s.Wait() })
			until(t, func() bool { return a.status().TracerID != 0 }, "strace does not trace")
			return a
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := row.start(t)
			before := a.state()
			r := a.hotspots("attach")
			if r.status != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, row.why) {
				t.Errorf("status %d: %s", r.status, r.stderr)
			}
			now := a.state()
			if strings.Contains(row.name, "Go") {
				before, now = named(before), named(now)
			}
			if now != before {
				t.Errorf("it was touched: %s", difference(before, now))
			}
			a.c.Process.Signal(syscall.SIGCONT)
			if row.name != "traced" { // it waits for strace, which waits for its test to end
				a.finish()
			}
		})
	}
}

// TestAttachFrozen: who is in a frozen cgroup is not waited for, and goes on when it is thawed.
func TestAttachFrozen(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "may not make cgroups")
	for _, at := range []string{"/sys/fs/cgroup/unified/", "/sys/fs/cgroup/"} {
		dir := filepath.Join(at, "dynprof-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(dir) })
		set := func(name, value string) bool {
			return os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600) == nil
		}
		if !set("cgroup.freeze", "0") {
			continue
		}
		a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "1")
		t.Cleanup(func() { set("cgroup.freeze", "0") })
		isFrozen := func() bool {
			events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
			return err == nil && strings.Contains(string(events), "frozen 1")
		}
		if !set("cgroup.procs", a.pid()) || !set("cgroup.freeze", "1") {
			t.Fatal("it cannot be frozen")
		}
		until(t, isFrozen, "it does not freeze")
		for _, what := range []string{"attach", "detach"} {
			r := a.hotspots(what)
			if want := "is frozen, as is all in " + dir + ": thaw that first (cgroup.freeze)"; r.status != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, want) {
				t.Errorf("%s: status %d: %s", what, r.status, r.stderr)
			}
		}
		set("cgroup.freeze", "0")
		a.finish()
		return
	}
	t.Skip("no cgroups of version 2 on this machine")
}

// TestAttachNotThere: whom there is nothing to be attached to says so.
func TestAttachNotThere(t *testing.T) {
	lane.Parallel(t)
	refused := func(arg, why string, status int) {
		t.Helper()
		for _, what := range []string{"attach", "detach"} {
			r := run(t, cmd(build(t, "hotspots"), what, "--", arg))
			if r.status != status || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, why) {
				t.Errorf("%s %s: status %d: %s", what, arg, r.status, r.stderr)
			}
		}
	}
	for _, arg := range []string{"x", "0", "-1", ""} {
		refused(arg, "is no number of a process", 2)
	}
	refused("4194305", "there is no process 4194305", 1)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "1")
	threads, err := os.ReadDir("/proc/" + a.pid() + "/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if thread.Name() != a.pid() {
			refused(thread.Name(), "("+a.pid()+"): name that process", 1)
		}
	}
	if r := a.hotspots("detach"); r.status != 1 || !strings.Contains(r.stderr, "is not attached to") {
		t.Errorf("detach from who is not attached to: status %d: %s", r.status, r.stderr)
	}
	a.c.Process.Kill()
	until(t, func() bool { return a.status().State == 'Z' }, "it does not end")
	refused(a.pid(), "has ended", 1)
	if kthreadd, err := os.ReadFile("/proc/2/comm"); err == nil && string(kthreadd) == "kthreadd\n" { // else we are in a pid namespace
		refused("2", "process 2 ", 1)
	}
}

// TestAttachFilterUnread: who may not read a program's filter is told what it takes.
func TestAttachFilterUnread(t *testing.T) {
	lane.Parallel(t)
	dir := openDir(t)
	c := exec.Command(copyFile(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), filepath.Join(dir, "program")), "1", "seccomp=refuses")
	as := cmd
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		as = func(args ...string) command { return nobody(t, dir, args...) }
	}
	a := converseAttached(t, c)
	r := run(t, as(copyFile(t, build(t, "hotspots"), filepath.Join(dir, "hotspots")), "attach", "-o", filepath.Join(dir, "table"), a.pid()))
	if r.status != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "has a seccomp filter, which may end it at a system call of ours: attach as root (CAP_SYS_ADMIN)") {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	a.quiet()
	a.goOn()
	a.end()
}

// TestAttachNotPermitted: who has not the right to is told what it takes.
func TestAttachNotPermitted(t *testing.T) {
	lane.Parallel(t)
	const init = 1
	pid, as := strconv.Itoa(init), cmd
	if os.Getuid() == 0 {
		a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "1")
		defer a.finish()
		pid, as = a.pid(), func(args ...string) command { return nobody(t, openDir(t), args...) }
	}
	hotspots := copyFile(t, build(t, "hotspots"), filepath.Join(openDir(t), "hotspots"))
	r := run(t, as(hotspots, "attach", pid))
	if r.status != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "it takes the same user, and a program that has no other rights, or CAP_SYS_PTRACE (sudo)") {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
}
