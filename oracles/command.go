package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	timeLimit  = "time limit" // a status
	mostOutput = 256 << 20    // bytes of a command's output that are read
)

// output is what a command did.
type output struct {
	stdout, stderr []byte
	status         string // "exit 0", "signal 11 (segmentation fault)", "time limit"
	elapsed        time.Duration
	counted        int    // processes that left a count table
	warm           int    // those that started without a planner
	dir            string // the command's directory
}

// commandNumber tells commands apart, also those of the same unit.
var commandNumber atomic.Int64

// run runs a unit's command once, without or with the library, and ends all
// that it has started. An error means that it could not be run.
func (m *machine) run(ctx context.Context, u *unit, counted bool) (*output, error) {
	mark := fmt.Sprintf("ORACLES_MARK=%d.%d", os.Getpid(), commandNumber.Add(1))
	left := &tables{dir: filepath.Join(m.work, "tables", mark[len("ORACLES_MARK="):]), read: m.how.byCommand()}
	if err := m.mkdir(left.dir); err != nil {
		return nil, err
	}
	defer os.RemoveAll(left.dir)
	env := append(m.environment(counted, left.dir), mark)
	args := u.args
	if counted && m.how.byCommand() {
		args = m.started(args, left.dir)
	}
	ctx, stop := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { left.watch(ctx, stop) })
	o, err := m.start(ctx, u.dir, args, append(env, u.env...), nil, m.limit(u))
	stop(nil)
	watching.Wait()
	if n := endMarked(mark); n > 0 && m.verbose {
		fmt.Printf("    %s left %d processes behind\n", u.name, n)
	}
	if err != nil {
		return nil, err
	}
	o.dir = u.dir
	left.take(true)
	o.counted, o.warm = left.counted, left.warm
	return o, nil
}

// limit is a command's own time limit, or the one of all.
func (m *machine) limit(u *unit) time.Duration {
	if u.limit != 0 {
		return u.limit
	}
	return m.longest
}

// start runs a command in a session of its own until it ends or the time is up,
// and then ends its process group. Output goes to files, so that nothing waits
// for processes that the command has left behind.
func (m *machine) start(ctx context.Context, dir string, args, env []string, stdin io.Reader, limit time.Duration) (*output, error) {
	stdout, err := os.CreateTemp(m.work, "stdout")
	if err != nil {
		return nil, err
	}
	defer closeAndRemove(stdout)
	stderr, err := os.CreateTemp(m.work, "stderr")
	if err != nil {
		return nil, err
	}
	defer closeAndRemove(stderr)

	c := exec.Command(args[0], args[1:]...)
	c.Dir, c.Env, c.Stdin, c.Stdout, c.Stderr = dir, env, stdin, stdout, stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: m.user}
	begin := time.Now()
	if err := c.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	status := ""
	select {
	case err = <-ended:
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	case <-timer.C:
		status = timeLimit
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		err = <-ended
	case <-ctx.Done():
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		<-ended
		return nil, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	o := &output{status: status, elapsed: time.Since(begin)}
	if status == "" {
		o.status = describe(c.ProcessState)
	}
	if o.stdout, err = readBack(stdout); err != nil {
		return nil, err
	}
	o.stderr, err = readBack(stderr)
	return o, err
}

// describe says how a process ended.
func describe(p *os.ProcessState) string {
	if w, ok := p.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return fmt.Sprintf("signal %d (%v)", int(w.Signal()), w.Signal())
	}
	return fmt.Sprintf("exit %d", p.ExitCode())
}

func readBack(f *os.File) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f, 0, mostOutput))
}

func closeAndRemove(f *os.File) {
	f.Close()
	os.Remove(f.Name())
}

// endMarked ends every process whose environment has the mark, wherever it has
// gone, and returns their number. They may go on making others: it looks until
// there is none.
func endMarked(mark string) int {
	ended := map[int]bool{}
	for range 50 {
		found := false
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
			if !bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+mark+"\x00")) {
				continue
			}
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				ended[pid], found = true, true
			}
		}
		if !found {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return len(ended)
}

// tool runs a command that prepares something, and returns its stdout. Its
// error has the last lines of stderr.
func (m *machine) tool(dir string, args ...string) (string, error) {
	return m.toolFrom(nil, dir, args...)
}

func (m *machine) toolFrom(stdin io.Reader, dir string, args ...string) (string, error) {
	o, err := m.start(m.ctx, dir, args, m.environment(false, ""), stdin, 15*time.Minute)
	if err != nil {
		return "", fmt.Errorf("%s: %w", args[0], err)
	}
	if o.status != "exit 0" {
		return "", fmt.Errorf("%s in %s: %s: %s", strings.Join(args, " "), dir, o.status, lastLines(string(o.stderr), 5))
	}
	return string(o.stdout), nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n\t")
}
