package control_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/control"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// long is as long as a busy machine may take; what shall end without an answer
// waits for short.
const (
	long  = time.Minute
	short = 20 * time.Millisecond
)

// ours is a table that this process counts into.
func ours(t *testing.T) *tabletest.Live {
	t.Helper()
	spec := tabletest.Spec()
	spec.Identity = alive.Identify(os.Getpid())
	return tabletest.Create(t, "a.dynprof", spec)
}

// serve has an agent for the table, which does what do says, until the test ends.
func serve(t *testing.T, live *tabletest.Live, do func(what uint32) int) *control.Service {
	t.Helper()
	s, err := control.Serve(live.Path, live.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	s.Ready()
	var stop atomic.Bool
	done := make(chan bool)
	go func() {
		defer close(done)
		for !stop.Load() {
			s.Wait(long, do)
		}
	}()
	t.Cleanup(func() {
		for stop.Store(true); ; s.Wake() { // it may not sleep yet
			select {
			case <-done:
				s.Close()
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	return s
}

func TestAsk(t *testing.T) {
	live := ours(t)
	result := 0
	var asked []uint32
	serve(t, live, func(what uint32) int {
		asked = append(asked, what)
		return result
	})
	for _, row := range []struct {
		what   uint32
		result int
		left   int
		want   error
	}{
		{layout.RequestPause, 0, 0, nil},
		{layout.RequestResume, 0, 0, nil},
		{layout.RequestPause, 17, 17, nil},
		{layout.RequestPause, 1<<31 - 1, 1<<31 - 1, nil},
		{layout.RequestPause, -int(syscall.EPERM), 0, syscall.EPERM},
		{255, -int(syscall.ENOSYS), 0, syscall.ENOSYS},
	} {
		asked, result = nil, row.result
		left, err := control.Ask(live.Path, row.what, long)
		if left != row.left || !errors.Is(err, row.want) || len(asked) != 1 || asked[0] != row.what {
			t.Errorf("asked for %d, answered %d: got %d, %v; the agent saw %v", row.what, row.result, left, err, asked)
		}
	}
}

// Of those who ask at the same time each has an answer, and each is asked for once.
func TestAskTogether(t *testing.T) {
	const askers, times = 8, 50
	live := ours(t)
	var served atomic.Int32
	serve(t, live, func(what uint32) int {
		served.Add(1)
		return 0
	})
	var all sync.WaitGroup
	for range askers {
		all.Go(func() {
			for range times {
				if _, err := control.Ask(live.Path, layout.RequestPause, long); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := served.Load(); n != askers*times {
		t.Errorf("%d requests of %d were served", n, askers*times)
	}
}

// Numbers of requests begin again at 0.
func TestAskWraps(t *testing.T) {
	const last = 1<<24 - 1
	at := func(live *tabletest.Live, number uint32) {
		live.Write(layout.HdrReply, binary.LittleEndian.AppendUint64(nil, uint64(number<<8|layout.RequestPause)))
		live.Word(layout.HdrRequest, number<<8|layout.RequestPause)
	}
	t.Run("one by one", func(t *testing.T) {
		live := ours(t)
		at(live, last-1)
		serve(t, live, func(what uint32) int { return int(what) })
		for range 3 {
			if left, err := control.Ask(live.Path, layout.RequestResume, long); left != layout.RequestResume || err != nil {
				t.Errorf("%d, %v", left, err)
			}
		}
	})
	// The answer is gone when we look: the next one, number 0, was served, too.
	t.Run("overtaken", func(t *testing.T) {
		live := ours(t)
		at(live, last-1)
		live.Word(layout.HdrAgent, layout.AgentReady)
		live.Word(layout.HdrAgentPid, uint32(os.Getpid()))
		done := make(chan error)
		go func() {
			_, err := control.Ask(live.Path, layout.RequestPause, long)
			done <- err
		}()
		for number := -1; number != last; number = int(live.Load(layout.HdrRequest) >> 8) {
			time.Sleep(time.Millisecond)
		}
		live.Write(layout.HdrReply, binary.LittleEndian.AppendUint64(nil, layout.RequestPause))
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// dead is the number of a process that is no more.
func dead(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestAskRefused(t *testing.T) {
	agent := func(state uint32, pid int) func(t *testing.T) string {
		return func(t *testing.T) string {
			live := ours(t)
			live.Word(layout.HdrAgent, state)
			live.Word(layout.HdrAgentPid, uint32(pid))
			return live.Path
		}
	}
	for name, row := range map[string]struct {
		make func(t *testing.T) string
		want error
	}{
		"no agent":           {agent(layout.AgentNone, 0), control.ErrNoAgent},
		"not known":          {agent(77, os.Getpid()), control.ErrNoAgent},
		"it has gone":        {agent(layout.AgentGone, os.Getpid()), control.ErrEnded},
		"it has died":        {agent(layout.AgentReady, dead(t)), control.ErrAgentGone},
		"it does not answer": {agent(layout.AgentReady, os.Getpid()), control.ErrAgentGone},
		"a copy": {func(t *testing.T) string {
			live := ours(t)
			live.Word(layout.HdrAgent, layout.AgentReady)
			live.Word(layout.HdrSnapshot, 1)
			return live.Path
		}, control.ErrEnded},
		"the program has ended": {func(t *testing.T) string {
			live := tabletest.Create(t, "a.dynprof", tabletest.Spec())
			live.Word(layout.HdrAgent, layout.AgentReady)
			live.Close()
			return live.Path
		}, control.ErrEnded},
		"not complete": {func(t *testing.T) string {
			live := ours(t)
			live.Word(layout.HdrState, layout.StateBuilding)
			return live.Path
		}, layout.ErrBuilding},
		"no table": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "a")
			if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 9000), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, layout.ErrNotTable},
		"a link": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "a")
			if err := os.Symlink(ours(t).Path, path); err != nil {
				t.Fatal(err)
			}
			return path
		}, syscall.ELOOP},
		"missing": {func(t *testing.T) string { return filepath.Join(t.TempDir(), "a") }, os.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			path := row.make(t)
			if left, err := control.Ask(path, layout.RequestPause, short); left != 0 || !errors.Is(err, row.want) {
				t.Errorf("%d, %v; want %v", left, err, row.want)
			}
		})
	}
}

// TestAgentDies: who has asked learns that the agent was killed, or has left, before
// it answered. The agent is a process of its own.
func TestAgentDies(t *testing.T) {
	if path := os.Getenv("CONTROL_TEST_AGENT"); path != "" {
		live := tabletest.OpenLive(t, path)
		s, err := control.Serve(path, live.Nonce)
		if err != nil {
			t.Fatal(err)
		}
		s.Ready()
		s.Wait(long, func(uint32) int {
			if os.Getenv("CONTROL_TEST_LEAVES") != "" {
				s.Close()
				os.Exit(0)
			}
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		})
	}
	for name, row := range map[string]struct {
		env      string
		patience time.Duration
		want     error
	}{"killed": {"", 10 * short, control.ErrAgentGone}, "left": {"yes", long, control.ErrEnded}} {
		t.Run(name, func(t *testing.T) {
			live := ours(t)
			cmd := exec.Command(os.Args[0], "-test.run", "^TestAgentDies$")
			cmd.Env = append(os.Environ(), "CONTROL_TEST_AGENT="+live.Path, "CONTROL_TEST_LEAVES="+row.env)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(long); live.Load(layout.HdrAgent) != layout.AgentReady; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("there is no agent")
				}
			}
			asked := make(chan error)
			go func() {
				_, err := control.Ask(live.Path, layout.RequestPause, row.patience)
				asked <- err
			}()
			cmd.Wait() // so that no corpse of it is left
			if err := <-asked; !errors.Is(err, row.want) {
				t.Errorf("got %v, want %v", err, row.want)
			}
			if _, err := control.Ask(live.Path, layout.RequestPause, long); !errors.Is(err, row.want) {
				t.Errorf("asked again: %v, want %v", err, row.want)
			}
		})
	}
}

// TestAgentToCome: a program that was started for an agent a moment ago has none yet, and who
// asks waits for it, but not for ever.
func TestAgentToCome(t *testing.T) {
	spec := tabletest.Spec()
	spec.Identity = alive.Identify(os.Getpid())
	spec.Reserve = 1 << 20
	live := tabletest.Create(t, "a.dynprof", spec)
	if _, err := control.Ask(live.Path, layout.RequestPause, short); !errors.Is(err, control.ErrAgentGone) {
		t.Errorf("of one that does not come: %v", err)
	}
	asked := make(chan error)
	go func() {
		_, err := control.Ask(live.Path, layout.RequestPause, long)
		asked <- err
	}()
	select {
	case err := <-asked:
		t.Fatalf("before it came: %v", err)
	case <-time.After(short):
	}
	serve(t, live, func(uint32) int { return 0 })
	if err := <-asked; err != nil {
		t.Error(err)
	}
}
