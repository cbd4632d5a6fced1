package test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// served is a program that does what the test tells it (testdata/control.c,
// "serve" and "daemon"), under run --control.
type served struct {
	t     *testing.T
	table string
	to    io.WriteCloser
	from  *bufio.Reader
	cmd   *exec.Cmd
}

// serve starts the program, counted; flags are those of run.
func serve(t *testing.T, flags ...string) *served {
	t.Helper()
	s := &served{t: t, table: filepath.Join(t.TempDir(), "table.dynprof")}
	args := append([]string{"run", "-o", s.table, "--summary", "0"}, flags...)
	s.cmd = exec.Command(build(t, "hotspots"), append(args, "--", controlled(t, "gcc", "-O1"), "serve")...)
	s.cmd.Stderr = os.Stderr
	s.to, s.from = converse(t, s.cmd)
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	s.rounds(1)
	return s
}

// rounds has the program call all its shapes n times, and waits until it has.
func (s *served) rounds(n int) {
	s.t.Helper()
	fmt.Fprintln(s.to, n)
	if line, err := s.from.ReadString('\n'); line != "done\n" {
		s.t.Fatalf("the program says %q: %v", line, err)
	}
}

// hotspots runs a command that says nothing.
func (s *served) hotspots(args ...string) {
	s.t.Helper()
	if r := run(s.t, cmd(append([]string{build(s.t, "hotspots")}, args...)...)); r.status != 0 || r.stderr != "" {
		s.t.Errorf("%v: status %d: %s", args, r.status, r.stderr)
	}
}

// expect compares the calls of all shapes with so many rounds.
func (s *served) expect(when string, rounds uint64) {
	s.t.Helper()
	expectRounds(s.t, s.table, when, rounds)
}

func expectRounds(t *testing.T, table, when string, rounds uint64) {
	t.Helper()
	r := readReport(t, table)
	for _, name := range []string{"whole", "outer", "loops", "carries", "narrow"} {
		want := rounds
		if name == "whole" {
			want *= 2
		}
		if n := r.calls(t, name); n != want {
			t.Errorf("%s: %d calls of %s, not %d", when, n, name, want)
		}
	}
}

// end ends the program and waits for it and its agent.
func (s *served) end(agent int) {
	s.t.Helper()
	s.to.Close()
	if line, _ := s.from.ReadString('\n'); line != "ok\n" {
		s.t.Errorf("the program says %q", line)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Error(err)
	}
	gone(s.t, agent)
}

// agentOf is the process that serves a table, as the table says; 0 is none.
func agentOf(t *testing.T, table string) int {
	t.Helper()
	f, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [8]byte
	if _, err := f.ReadAt(b[:], 0x288); err != nil { // docs/table-format.md: HdrAgent, HdrAgentPid
		t.Fatal(err)
	}
	if b[0] == 0 {
		return 0
	}
	return int(b[4]) | int(b[5])<<8 | int(b[6])<<16
}

// state is a field of /proc/PID/status; "" if the process is gone.
func state(pid int, field string) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	m := regexp.MustCompile(`(?m)^` + field + `:\s*(.*)$`).FindStringSubmatch(string(b))
	if m == nil {
		return ""
	}
	return m[1]
}

func isGone(pid int) bool { s := state(pid, "State"); return s == "" || strings.HasPrefix(s, "Z") }

// gone fails unless the process ends. (A corpse is its new parent's affair.)
func gone(t *testing.T, pid int) {
	t.Helper()
	for limit := time.Now().Add(patience); !isGone(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("process %d, %s, is still there", pid, state(pid, "Name"))
		}
	}
}

// agent waits until there is one.
func (s *served) agent() int {
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if pid := agentOf(s.t, s.table); pid != 0 {
			return pid
		}
	}
	s.t.Fatal("no agent comes")
	return 0
}

// TestControlFromOutside: counting is paused, resumed, reset and copied while
// the program is held.
func TestControlFromOutside(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"--control"}, {"--control", "--threshold", "20"}, {"--control", "--objects", "all"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			s := serve(t, flags...)
			agent := s.agent()
			pid := strconv.Itoa(readReport(t, s.table).Pid)
			rounds := uint64(1)
			for i := range lane.Of(11, 30) {
				s.hotspots("pause", pid)
				s.rounds(10)
				if i%10 == 0 {
					s.expect("paused", rounds)
				}
				s.hotspots("resume", s.table)
				s.rounds(7)
				rounds += 7
			}
			s.expect("resumed", rounds)
			copied := filepath.Join(t.TempDir(), "copy.dynprof")
			s.hotspots("snapshot", pid, "-o", copied)
			s.rounds(1)
			expectRounds(t, copied, "in the copy", rounds)
			s.hotspots("reset", pid)
			s.expect("reset", 0)
			s.rounds(5)
			s.expect("after the reset", 5)
			expectRounds(t, copied, "in the copy", rounds)
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() { s.hotspots([]string{"pause", "resume", "reset"}[i%3], s.table) })
			}
			s.rounds(100)
			all.Wait()
			s.hotspots("resume", s.table)
			s.hotspots("reset", s.table)
			s.rounds(3)
			s.expect("at the end", 3)
			s.end(agent)
			s.expect("ended", 3)
			refusedControl(t, s.table, "pause", "the program has ended")
		})
	}
}

// TestAgent: it is nobody's child, holds nothing of the program's, keeps still,
// and goes with the program, however that ends.
func TestAgent(t *testing.T) {
	lane.Parallel(t)
	s := serve(t, "--control")
	agent := s.agent()
	pid := readReport(t, s.table).Pid
	if name := state(agent, "Name"); name != "dynprof-agent" {
		t.Errorf("it is called %q", name)
	}
	if parent := state(agent, "PPid"); parent == strconv.Itoa(pid) {
		t.Error("it is a child of the program's")
	}
	for _, what := range []string{"stat", "cmdline"} {
		a, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", agent, what))
		p, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, what))
		fa, fp := strings.Fields(string(a)), strings.Fields(string(p))
		if what == "stat" && (fa[4] == fp[4] || fa[5] == fp[5]) {
			t.Error("it is in the program's process group or session")
		}
		if what == "cmdline" && strings.Contains(string(a), "serve") {
			t.Errorf("its command line is %q", a)
		}
	}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", agent))
	for _, l := range links {
		to, _ := os.Readlink(l)
		if to != "/dev/null" && to != s.table && !strings.HasPrefix(to, "anon_inode:") {
			t.Errorf("it has %s open", to)
		}
	}
	if cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", agent)); cwd != "/" {
		t.Errorf("it is in %s", cwd)
	}
	if kb := number(state(agent, "RssAnon")); kb > 24<<10 {
		t.Errorf("it takes %d KiB", kb)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
		syscall.Kill(agent, sig)
	}
	for range lane.Of(25, 200) {
		s.hotspots("pause", s.table)
		s.hotspots("resume", s.table)
	}
	if kb := number(state(agent, "RssAnon")); kb > 24<<10 {
		t.Errorf("after as many requests it takes %d KiB", kb)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	gone(t, agent)

	s = serve(t, "--control")
	agent = s.agent()
	syscall.Kill(agent, syscall.SIGKILL)
	gone(t, agent)
	s.rounds(10)
	refusedControl(t, s.table, "pause", "the program's agent does not answer")
	s.expect("without the agent", 11)
	s.end(agent)
}

func number(s string) int {
	n, _ := strconv.Atoi(strings.Fields(s + " 0")[0])
	return n
}

// TestAgentOfDaemon: the agent goes with the last process.
func TestAgentOfDaemon(t *testing.T) {
	lane.Parallel(t)
	dir := t.TempDir()
	table, in, out := filepath.Join(dir, "table"), filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, fifo := range []string{in, out} {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := controlled(t, "gcc", "-O1")
	if r := run(t, cmd(build(t, "hotspots"), "run", "--control", "-o", table, "--summary", "0", "--", p, "daemon", in, out)); r.status != 0 || r.stderr != "" {
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
	s := &served{t: t, table: table, to: to, from: bufio.NewReader(from)}
	s.rounds(5)
	agent := s.agent()
	s.hotspots("pause", table)
	s.rounds(10)
	s.hotspots("resume", table)
	s.rounds(2)
	s.expect("of the daemon", 7)
	to.Close()
	gone(t, agent)
	s.expect("ended", 7)
}

// TestAgentIsNotSeen: by the program's wait and SIGCHLD, before and after exec.
func TestAgentIsNotSeen(t *testing.T) {
	lane.Parallel(t)
	p := controlled(t, "gcc", "-O1")
	for _, mode := range []string{"alone", "exec"} {
		r, _ := counted(t, cmd(p, mode), "--control")
		ok(t, r)
	}
	// The first process of a pid namespace is every orphan's parent.
	unshare := []string{need(t, "unshare"), "-Urpf", "--mount-proc"}
	if r := run(t, cmd(append(unshare, "true")...)); r.status != 0 {
		t.Logf("no namespaces here: %s", r.stderr)
	} else {
		c := cmd(slices.Concat(unshare, []string{"env", "DYNPROF_CONTROL=1", "DYNPROF_OUTPUT=" + filepath.Join(t.TempDir(), "table"),
			"LD_PRELOAD=" + build(t, "libdynprof.so"), p, "adopt"})...)
		ok(t, run(t, c))
	}
	gcc := need(t, "gcc")
	plugin := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	for _, args := range [][]string{{"exact"}, {"flips", "500"}, {"forks", plugin}} {
		r, report := counted(t, cmd(append([]string{p}, args...)...), "--control")
		ok(t, r)
		if args[0] == "forks" { // paused in 2 of 5 rounds, also what others have loaded
			if n := report.late(plugin, "late_step"); n != 3*3*100 {
				t.Errorf("late_step: %d calls", n)
			}
		}
	}
}

// refusedControl fails unless the command refuses the table with one line.
func refusedControl(t *testing.T, table, command, says string) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), command, table))
	oneLine(t, r.stderr, says, "")
	if r.status != 1 || r.stdout != "" {
		t.Errorf("%s: status %d; %q", command, r.status, r.stdout)
	}
}

// TestControlRefuses: what cannot be done is refused in one line.
func TestControlRefuses(t *testing.T) {
	lane.Parallel(t)
	table := tableOf(t)
	for _, command := range []string{"pause", "resume"} {
		refusedControl(t, table, command, "start it with hotspots run --control")
	}
	dir := t.TempDir()
	text := write(t, filepath.Join(dir, "text"), strings.Repeat("some text\n", 1000), 0o600)
	cut := write(t, filepath.Join(dir, "cut"), read(t, table)[:5000], 0o600)
	for _, command := range []string{"pause", "resume", "reset", "snapshot"} {
		refusedControl(t, text, command, "not a dynprof count table")
		refusedControl(t, cut, command, "cut short")
		refusedControl(t, filepath.Join(dir, "missing"), command, "no such file")
		refusedControl(t, "4194999", command, "no count table of process 4194999")
	}
	r := run(t, cmd(build(t, "hotspots"), "snapshot", table, "-o", text))
	oneLine(t, r.stderr, "no count table", "")
	if read(t, text) != strings.Repeat("some text\n", 1000) {
		t.Error("the file is written over")
	}
}

// TestOutputAgain: a table's name is free when its program has ended, whoever
// reads it, and not before.
func TestOutputAgain(t *testing.T) {
	lane.Parallel(t)
	table := filepath.Join(t.TempDir(), "table")
	again := func(args ...string) result {
		return run(t, cmd(slices.Concat([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", table}, args)...))
	}
	for range 5 {
		for _, flags := range [][]string{{"--control"}, nil, {"--lock", "--control"}} {
			if r := again(slices.Concat(flags, []string{"--", "true"})...); r.status != 0 || r.stderr != "" {
				t.Fatalf("%v: %+v", flags, r)
			}
			if slices.Contains(flags, "--lock") {
				continue // it is not known who counts, so that readers are in the way
			}
			reader, err := os.Open(table)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
		}
	}
	for _, flags := range [][]string{{"--control"}, nil} {
		// The shell leaves a child behind, which counts until its input ends.
		c := exec.Command(build(t, "hotspots"), slices.Concat([]string{"run", "--summary", "0", "-o", table}, flags, []string{"--", "sh", "-c", "{ read x; read x; } <&3 & exit 3"})...)
		from, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c.ExtraFiles = []*os.File{from}
		c.Run()
		from.Close()
		if r := again("--", "true"); !strings.Contains(r.stderr, "a running program counts into it") {
			t.Errorf("%+v", r)
		}
		to.Close()
		for limit := time.Now().Add(patience); again("--", "true").stderr != ""; { // the child has not ended yet
			if time.Now().After(limit) {
				t.Fatal("the name does not become free")
			}
		}
	}
}
