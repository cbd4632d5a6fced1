package ptrace

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

const (
	executes = "PTRACE_TEST_EXECUTES" // so often the program executes itself;
	forever  = -1                     // it has threads, and ends by a signal
)

func init() {
	n, err := strconv.Atoi(os.Getenv(executes))
	if err != nil {
		return
	}
	const threads = 20
	for range threads {
		go func() {
			runtime.LockOSThread()
			select {}
		}()
	}
	runtime.LockOSThread()
	if n == forever {
		time.Sleep(time.Hour)
	}
	time.Sleep(time.Duration(n%5) * time.Millisecond)
	if n > 0 {
		err = syscall.Exec("/proc/self/exe", os.Args, []string{fmt.Sprintf("%s=%d", executes, n-1)})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(7)
}

// startExecutes starts the program, as a child of another: what comes of ours is told to who waits,
// too.
func startExecutes(t *testing.T, times int) (c *exec.Cmd, pid int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c = exec.Command("sh", "-c", fmt.Sprintf("%s=%d '%s' & echo $!; wait $!", executes, times, exe))
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		_, err = fmt.Fscan(out, &pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, pid
}

// TestStopExecutes: a program whose threads execute it all the time is stopped, or it is said that
// it executes something; it is never held up.
func TestStopExecutes(t *testing.T) {
	c, pid := startExecutes(t, lane.Of(30, 300))
	const patience = time.Minute
	defer time.AfterFunc(patience, func() { t.Error("it hangs"); syscall.Kill(pid, syscall.SIGKILL) }).Stop()
	ended := make(chan error)
	go func() { ended <- c.Wait() }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stopped, others := 0, map[string]int{}
	for {
		select {
		case <-ended:
			if status := c.ProcessState.ExitCode(); status != 7 {
				t.Errorf("status %d", status)
			}
			t.Logf("stopped %d times; %v", stopped, others)
			return
		default:
		}
		p, err := Stop(pid, time.Second, nil)
		if err != nil {
			others[err.Error()]++
			continue
		}
		stopped++
		p.Release()
	}
}

// TestStopKilled: the end of a thread that is killed when it has just stopped is waited for, so that
// its process's parent is told of the end of all.
func TestStopKilled(t *testing.T) {
	c, pid := startExecutes(t, forever)
	const patience = 20 * time.Second
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var tids []int
	var err error
	for until := time.Now().Add(patience); len(tids) < 10 && time.Now().Before(until); time.Sleep(time.Millisecond) {
		if tids, err = tasks(pid); err != nil {
			t.Fatal(err)
		}
	}
	p := &Process{Pid: pid}
	one, err := p.seize(tids[0])
	if err == nil {
		_, err = one.wait(time.Now().Add(patience))
	}
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	for until := time.Now().Add(patience); !isEnding(pid, one.Tid) && time.Now().Before(until); time.Sleep(time.Millisecond) {
	}
	if err := p.look(one); err != nil || len(p.Threads) > 0 {
		t.Errorf("%v, %d threads", err, len(p.Threads))
	}
	p.Release()
	ended := make(chan error)
	go func() { ended <- c.Wait() }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("its parent is not told")
	}
}
