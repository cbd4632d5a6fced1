package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// machine is where the benchmarks run.
type machine struct {
	options
	ctx      context.Context
	work     string // in memory: tables, traces, outputs
	sources  string // of the workloads
	library  string // copies: a build meanwhile does not change them
	hotspots string
	launch   string // launch.c, built
	missing  map[string]string
	planned  map[string]bool // by flag and program: whether there are plans
	cold     int             // starts with plans that had a planner all the same

	mutex    sync.Mutex
	prepared map[string]func() error
	reached  map[string]*reach // by path
}

// newMachine makes the work directory, in memory if there is room: a tool that
// writes a trace is to be measured, not the disk.
func newMachine(ctx context.Context, o options) (*machine, error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return nil, err
	}
	base := os.TempDir()
	if room("/dev/shm") > 1<<30 {
		base = "/dev/shm"
	}
	work, err := os.MkdirTemp(base, "bench-")
	if err != nil {
		return nil, err
	}
	m := &machine{options: o, ctx: ctx, work: work, sources: filepath.Join(root, "bench", "workloads"), missing: map[string]string{}, planned: map[string]bool{}, prepared: map[string]func() error{}, reached: map[string]*reach{}}
	m.library, m.hotspots, m.launch = filepath.Join(work, "libdynprof.so"), filepath.Join(work, "hotspots"), filepath.Join(work, "launch")
	if err := m.settle(filepath.Join(root, "build")); err != nil {
		os.RemoveAll(work)
		return nil, err
	}
	return m, nil
}

func (m *machine) settle(build string) error {
	for _, file := range []string{m.library, m.hotspots} {
		b, err := os.ReadFile(filepath.Join(build, filepath.Base(file)))
		if err != nil {
			return fmt.Errorf("%w: run make first", err)
		}
		if err := os.WriteFile(file, b, 0o755); err != nil {
			return err
		}
	}
	for _, dir := range []string{"bin", "input"} {
		if err := os.Mkdir(filepath.Join(m.work, dir), 0o755); err != nil {
			return err
		}
	}
	_, err := m.tool("gcc", "-O2", "-o", m.launch, filepath.Join(m.sources, "launch.c"))
	return err
}

// tool runs a command of preparation and returns its output.
func (m *machine) tool(args ...string) (string, error) {
	c := exec.CommandContext(m.ctx, args[0], args[1:]...)
	c.Dir = m.work
	c.Env = append(os.Environ(), "LC_ALL=C")
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, lastLine(stderr.String()))
	}
	return string(out), nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// cpus is the list of CPUs for a program that uses n: the last ones, since
// interrupts mostly go to the first. 0 is all.
func cpus(n int) string {
	if n == 0 {
		return "-"
	}
	all := runtime.NumCPU()
	var list []string
	for i := max(0, all-n); i < all; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return strings.Join(list, ",")
}

// tooFewCPUs says why a workload for n CPUs cannot run here.
func tooFewCPUs(n int) error {
	if runtime.NumCPU() < n {
		return fmt.Errorf("%w: %d CPUs", errMissing, n)
	}
	return nil
}

// room is the number of bytes that are free in a file system.
func room(dir string) uint64 {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0
	}
	return s.Bavail * uint64(s.Bsize)
}

// describe names the machine.
func describe() string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%s, %d CPUs, Linux %s, %s", field("/proc/cpuinfo", "model name"), runtime.NumCPU(),
		strings.TrimSpace(string(kernel)), strings.Trim(assigned("/etc/os-release", "PRETTY_NAME"), `"`))
}

func field(path, name string) string { return find(path, name, ":") }

func assigned(path, name string) string { return find(path, name, "=") }

func find(path, name, separator string) string {
	f, err := os.Open(path)
	if err != nil {
		return "?"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), separator); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "?"
}

// errMissing is why something is skipped.
var errMissing = errors.New("missing on this machine")

// needs says which of the named commands or files is missing.
func needs(what ...string) error {
	for _, w := range what {
		var err error
		if filepath.IsAbs(w) {
			_, err = os.Stat(w)
		} else {
			_, err = exec.LookPath(w)
		}
		if err != nil {
			return fmt.Errorf("%w: %s", errMissing, w)
		}
	}
	return nil
}
