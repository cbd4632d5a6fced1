package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// command is a program to be measured.
type command struct {
	args  []string
	env   []string // beside the environment that all have
	dir   string   // its own; outputs of tools go there
	cpus  string   // list, or - for all
	stdin string   // path; "" is /dev/null
	drive func() error
	under []string // a command in front of all
}

// taken is what a run took. Times and memory include the processes that the
// program waited for: the planner's, too.
type taken struct {
	wall, cpu time.Duration
	peak      int // KiB
	stdout    []byte
	stderr    []byte
}

// environment of every program that is measured. In its home hotspots run puts its library.
func (m *machine) environment() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + m.work, "LC_ALL=C", "TERM=dumb", "PYTHONHASHSEED=0"}
}

// run runs a command by way of launch.c. With drive the program is a server:
// drive uses it and makes it end.
func (m *machine) run(c command) (*taken, error) {
	result := filepath.Join(c.dir, "taken")
	args := append(append([]string{}, c.under...), m.launch, result, c.cpus, c.dir)
	args = append(append(append(args, c.env...), "--"), c.args...)
	p := exec.CommandContext(m.ctx, args[0], args[1:]...)
	p.Env, p.WaitDelay = m.environment(), 10*time.Second
	p.Cancel = func() error { return p.Process.Signal(syscall.SIGTERM) }
	var stdout, stderr bytes.Buffer
	p.Stdout, p.Stderr = &stdout, &stderr
	if c.stdin != "" {
		f, err := os.Open(c.stdin)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		p.Stdin = f
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	if c.drive != nil {
		if err := c.drive(); err != nil {
			p.Process.Signal(syscall.SIGTERM)
			p.Wait()
			return nil, fmt.Errorf("%w %s", err, lastLine(stderr.String()))
		}
	}
	if err := p.Wait(); err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	t := &taken{stdout: stdout.Bytes(), stderr: stderr.Bytes()}
	var wall, cpu, status int64
	line, err := os.ReadFile(result)
	if err == nil {
		_, err = fmt.Sscan(string(line), &wall, &cpu, &t.peak, &status)
	}
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	if status != 0 {
		return nil, fmt.Errorf("%s: wait status %#x: %s", strings.Join(c.args, " "), status, lastLine(stderr.String()))
	}
	t.wall, t.cpu = time.Duration(wall), time.Duration(cpu)*time.Microsecond
	if m.verbose {
		fmt.Printf("  %8.1f ms cpu %8.1f ms wall %7d KiB  %s %s\n", ms(t.cpu), ms(t.wall), t.peak, strings.Join(c.env, " "), strings.Join(c.args, " "))
	}
	return t, nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// fresh makes an empty directory for one run.
func (m *machine) fresh() (string, error) { return os.MkdirTemp(m.work, "run-") }
