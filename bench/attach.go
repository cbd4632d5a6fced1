package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What preload does not reach: programs that run already, and static ones.

// attached is redis-server, attached to before the load. What hotspots takes itself is not in
// it: the server does not wait for that.
var attached = &tool{
	name: "dynprof-attached", about: "hotspots attach, before the load",
	wants: func(w *workload) bool { return w == redisWorkload },
	command: func(m *machine, c *command) {
		load := c.drive
		c.drive = func() error {
			pid, err := serverOf(m, filepath.Join(c.dir, "socket"))
			if err == nil {
				_, err = m.tool(m.hotspots, "attach", "-o", filepath.Join(c.dir, "table"), strconv.Itoa(pid))
			}
			if err != nil {
				return err
			}
			return load()
		}
	},
	read: dynprof.read,
}

// serverOf is the number of who listens at a socket, once somebody does.
func serverOf(m *machine, socket string) (pid int, err error) {
	if err := answers(m, socket); err != nil {
		return 0, err
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var who *syscall.Ucred
	if failed := raw.Control(func(fd uintptr) { who, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED) }); failed != nil || err != nil {
		return 0, cmp.Or(failed, err)
	}
	return int(who.Pid), nil
}

// static is hotspots run of a program that is linked statically: it is attached to before its
// first instruction. The command's own start is in it.
var static = &tool{
	name: "dynprof-static", about: "hotspots run --summary 0, of a static program (rebuilt)",
	wants: func(w *workload) bool { return rebuilt(w) && w.uses < 2 },
	program: func(m *machine, w *workload) (string, string, error) {
		program, err := m.compile(w, "gcc", "-static", "-static")
		return program, program, err
	},
	command: outside,
	read:    dynprof.read,
}

// compiled is the same of a program that is static anyway.
var compiled = &tool{
	name: "dynprof-run", about: "hotspots run --summary 0, of a program that is static",
	wants:   func(w *workload) bool { return w.static },
	command: outside, read: dynprof.read,
}

func outside(m *machine, c *command) {
	c.args = append([]string{m.hotspots, "run", "--summary", "0", "-o", filepath.Join(c.dir, "table"), "--"}, c.args...)
}

// compileWorkload is Go's compiler, a static program of Go, which collects its garbage
// meanwhile.
var compileWorkload = &workload{
	name: "compile", about: "Go's compiler, a static program", size: 400, small: 20, static: true, needs: []string{"go"},
	prepare: func(m *machine, w *workload) error {
		path, err := m.tool("go", "tool", "-n", "compile")
		w.program = strings.TrimSpace(path)
		return err
	},
	args: func(m *machine, size int) ([]string, error) {
		file, err := m.input(fmt.Sprintf("units-%d.go", size), func() []byte { return []byte(goSource(size)) })
		return []string{"-p", "units", "-c", "1", "-o", "out.o", file}, err
	},
}

// goSource is a file of so many functions that import nothing.
func goSource(n int) string {
	var s strings.Builder
	s.WriteString("package units\n\ntype pair[K comparable, V any] struct {\n\tkey K\n\tvalue V\n}\n")
	for i := range n {
		fmt.Fprintf(&s, `
func unit%[1]d(in []string, limit int) (out map[string][]pair[int, string], err error) {
	out = map[string][]pair[int, string]{}
	defer func() { recover() }()
	for i, s := range in {
		switch n := len(s) %% %[2]d; {
		case n == 0 && i > limit:
			continue
		case n > 3:
			out[s[:3]] = append(out[s[:3]], pair[int, string]{i * %[1]d, s[3:]})
		default:
			f := func(k int) int { return k<<(n&7) ^ i }
			out[s] = append(out[s], pair[int, string]{f(limit), s + "x"})
		}
	}
	for k, v := range out {
		for j := len(v) - 1; j > 0; j-- {
			if v[j].key < v[j-1].key {
				v[j], v[j-1] = v[j-1], v[j]
			}
		}
		out[k] = v
	}
	return out, err
}
`, i, i%17+5)
	}
	return s.String()
}

// pause is for how long a program stood still, by the largest gap of a thread of it that spins.
type pause struct {
	Tool      string    `json:"tool"`
	Threads   int       `json:"threads"`
	Functions int       `json:"functions"` // of the program
	Skipped   string    `json:"skipped,omitempty"`
	RunsMS    []float64 `json:"runs_ms"`
	MS        spread    `json:"ms"`
}

// stopper is somebody who stops a program to look at it, or to change it.
type stopper struct {
	name string
	stop func(m *machine, program, pid string) error
}

const (
	pauseFunctions = 48_000
	pauseProbed    = 100 // by uprobes, which take some ms each to make
)

var stoppers = []stopper{
	{"hotspots attach", func(m *machine, _, pid string) error {
		_, err := m.tool(m.hotspots, "attach", "-o", filepath.Join(m.work, "table-"+pid), pid)
		return err
	}},
	{"hotspots detach", func(m *machine, _, pid string) error { // of what the one before has attached to
		_, err := m.tool(m.hotspots, "detach", pid)
		return err
	}},
	{"gdb, attach and detach", func(m *machine, _, pid string) error {
		_, err := m.tool("gdb", "-batch", "-nx", "-p", pid, "-ex", "detach")
		return err
	}},
	{"strace -f -p, for 0.2 s", func(m *machine, _, pid string) error {
		_, err := m.tool("timeout", "--preserve-status", "-s", "INT", "0.2", "strace", "-f", "-q", "-o", "/dev/null", "-p", pid)
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 128+int(syscall.SIGINT) {
			return nil
		}
		return err
	}},
	{fmt.Sprintf("perf probe and record, %d functions", pauseProbed), probe},
}

// probe counts some functions by uprobes, as perf makes them.
func probe(m *machine, program, pid string) error {
	add := []string{"perf", "probe", "-q", "-x", program}
	for i := range pauseProbed {
		add = append(add, "-a", fmt.Sprintf("function%d", i*pauseFunctions/pauseProbed))
	}
	group := "probe_" + filepath.Base(program)
	defer m.tool("perf", "probe", "-q", "-d", group+":*")
	if _, err := m.tool(add...); err != nil {
		return err
	}
	_, err := m.tool("perf", "stat", "-e", group+":*", "-p", pid, "--", "sleep", "0.2")
	return err
}

// pauses measures each in turn, each time with a process that nobody has stopped before.
func (m *machine) pauses(f *figures) error {
	data := filepath.Join(m.sources, "..", "..", "test", "testdata")
	program, err := m.build("pause", "gcc", "-O1", "-pthread", fmt.Sprintf("-DFUNCTIONS=%d", pauseFunctions), filepath.Join(data, "attachpause.c"), filepath.Join(data, "functions.S"))
	if err != nil {
		return err
	}
	for _, threads := range []int{10, 1000} {
		fmt.Printf("pauses of a program of %d threads\n", threads)
		all := make([]pause, len(stoppers))
		for range f.Rounds {
			if err := m.pauseRound(program, threads, all); err != nil {
				return err
			}
		}
		for i := range all {
			p := &all[i]
			p.Tool, p.Threads, p.Functions, p.MS = stoppers[i].name, threads, pauseFunctions, spreadOf(p.RunsMS)
		}
		f.Pauses = append(f.Pauses, all...)
	}
	return nil
}

func (m *machine) pauseRound(program string, threads int, all []pause) error {
	var s *spinner
	defer func() { s.end() }()
	for i, by := range stoppers {
		if !m.tools.MatchString(by.name) || all[i].Skipped != "" {
			continue
		}
		if by.name != "hotspots detach" {
			s.end()
			var err error
			if s, err = m.spin(program, threads); err != nil {
				return err
			}
		}
		if _, err := s.longest(); err != nil {
			return err
		}
		if err := by.stop(m, program, s.pid()); err != nil {
			if strings.HasPrefix(by.name, "hotspots") || m.ctx.Err() != nil {
				return err
			}
			all[i].Skipped = err.Error()
			fmt.Printf("  %s: skipped: %v\n", by.name, err)
			continue
		}
		gap, err := s.longest()
		if err != nil {
			return err
		}
		all[i].RunsMS = append(all[i].RunsMS, ms(gap))
	}
	return nil
}

// spinner is a process of which a thread spins, and others sleep most of the time.
type spinner struct {
	c    *exec.Cmd
	asks func() error
	from *bufio.Scanner
}

func (m *machine) spin(program string, threads int) (*spinner, error) {
	s := &spinner{c: exec.CommandContext(m.ctx, program, strconv.Itoa(threads))}
	in, err := s.c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.asks = func() error { _, err := in.Write([]byte("\n")); return err }
	s.from = bufio.NewScanner(out)
	if err := s.c.Start(); err != nil {
		return nil, err
	}
	if !s.from.Scan() {
		return nil, fmt.Errorf("%s does not begin", program)
	}
	return s, nil
}

func (s *spinner) pid() string { return strconv.Itoa(s.c.Process.Pid) }

// longest is the largest gap since it was last asked.
func (s *spinner) longest() (time.Duration, error) {
	if err := s.asks(); err != nil {
		return 0, err
	}
	if !s.from.Scan() {
		return 0, fmt.Errorf("the program that was stopped has ended: %w", s.c.Wait())
	}
	n, err := strconv.Atoi(s.from.Text())
	return time.Duration(n), err
}

func (s *spinner) end() {
	if s != nil {
		s.c.Process.Kill()
		s.c.Wait()
	}
}

func pauseText(f *figures) string {
	if len(f.Pauses) == 0 {
		return ""
	}
	rows := [][]string{{"by"}}
	var threads []int
	for _, p := range f.Pauses {
		if !slices.Contains(threads, p.Threads) {
			threads = append(threads, p.Threads)
			rows[0] = append(rows[0], fmt.Sprintf("%d threads, ms", p.Threads))
		}
	}
	for _, s := range stoppers {
		row := []string{s.name}
		for _, n := range threads {
			text := ""
			for _, p := range f.Pauses {
				if p.Tool != s.name || p.Threads != n {
					continue
				}
				if text = p.MS.String(); p.Skipped != "" {
					text = "skipped"
				} else if len(p.RunsMS) == 0 {
					text = ""
				}
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return grid(rows)
}
