package bisect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
)

// Files in the directory of a run.
const (
	stdoutName = "stdout"
	stderrName = "stderr"
	namesName  = "names"  // that were to be patched
	tablesName = "tables" // directory of count tables
	noteName   = "note"   // why the library counted nothing
	checkName  = "check"  // directory of the check's output
)

// limits end a run that does not end by itself. 0 is none.
type limits struct {
	time   time.Duration
	output int64 // bytes of stdout, and of stderr
}

// outcome is how a run ended; what it wrote is in dir.
type outcome struct {
	code    int            // exit status
	signal  syscall.Signal // that killed it; 0 if it exited
	stopped string         // the limit that ended it; empty if none did
	took    time.Duration
	dir     string
}

// status is what a shell would make of it: 128+N after signal N.
func (o *outcome) status() int {
	if o.signal != 0 {
		return 128 + int(o.signal)
	}
	return o.code
}

// end says it in words.
func (o *outcome) end() string {
	switch {
	case o.stopped != "":
		return o.stopped
	case o.signal != 0:
		return fmt.Sprintf("%d (%s)", o.status(), o.signal)
	}
	return fmt.Sprint(o.code)
}

// execute runs a program in a session of its own, without a terminal, its
// output in files of dir, and kills what it leaves behind. An error means that
// it did not run, or that ctx has ended.
func execute(ctx context.Context, path string, args, env []string, in *input, dir string, lim limits) (*outcome, error) {
	c := &exec.Cmd{Path: path, Args: args, Env: env, SysProcAttr: &syscall.SysProcAttr{Setsid: true}, WaitDelay: time.Second}
	stdin, closeInput, err := in.open()
	if err != nil {
		return nil, err
	}
	defer closeInput()
	stdout, err := os.Create(filepath.Join(dir, stdoutName))
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	stderr, err := os.Create(filepath.Join(dir, stderrName))
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	c.Stdin, c.Stdout, c.Stderr = stdin, stdout, stderr
	begin := time.Now()
	if err := c.Start(); err != nil {
		return nil, startError(path, err)
	}
	o := &outcome{dir: dir}
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		o.stopped = watch(ctx, c.Process.Pid, over, lim, stdout, stderr)
	}()
	waitErr := awaitEnd(c.Process.Pid)
	o.took = time.Since(begin)
	close(over)
	<-watched
	syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // the number is ours until Wait
	c.Wait()                                      // its errors are statuses, and input that was not read
	if err := errors.Join(waitErr, ctx.Err()); err != nil {
		return nil, err
	}
	if ws := c.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		o.signal = ws.Signal()
	} else {
		o.code = ws.ExitStatus()
	}
	return o, nil
}

func startError(path string, err error) error {
	kind := launch.ErrNotExecutable
	if errors.Is(err, os.ErrNotExist) {
		kind = launch.ErrNotFound
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		err = number // not again the path
	}
	return fmt.Errorf("%s: %w: %w", path, kind, err)
}

// watch kills the process group pid when a limit is passed or ctx ends, and
// says which limit. It returns when over is closed.
func watch(ctx context.Context, pid int, over <-chan struct{}, lim limits, outputs ...*os.File) (stopped string) {
	begin := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return stopped
		case <-ctx.Done():
			syscall.Kill(-pid, syscall.SIGKILL)
			<-over
			return ""
		case <-tick.C:
		}
		if stopped == "" {
			stopped = lim.passed(time.Since(begin), outputs)
		}
		if stopped != "" {
			syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
}

// passed names the limit that is passed.
func (l limits) passed(took time.Duration, outputs []*os.File) string {
	if l.time > 0 && took > l.time {
		return fmt.Sprintf("killed: it did not end within %v", l.time.Round(time.Millisecond))
	}
	for _, f := range outputs {
		if fi, err := f.Stat(); err == nil && l.output > 0 && fi.Size() > l.output {
			return fmt.Sprintf("killed: it wrote more than %d MB", l.output>>20)
		}
	}
	return ""
}

// awaitEnd waits until the child has ended and leaves its corpse, so that its
// number is not another process's yet.
func awaitEnd(pid int) error {
	const byPid, leave = 1, 0x1000000 // P_PID, WNOWAIT of waitid(2)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid), 0, syscall.WEXITED|leave, 0, 0)
		if errno == 0 {
			return nil
		}
		if errno != syscall.EINTR {
			return fmt.Errorf("waiting for process %d: %w", pid, errno)
		}
	}
}
