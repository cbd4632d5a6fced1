package control_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/control"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// Only the program's own table is served, complete or not.
func TestServe(t *testing.T) {
	live := ours(t)
	s, err := control.Serve(live.Path, live.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := s.File().Stat(); err != nil || fi.Size() != int64(live.Size) || s.Pid() != os.Getpid() || !s.Live() {
		t.Errorf("%v, %v; process %d, live %v", fi, err, s.Pid(), s.Live())
	}
	s.Close()
	if state := live.Load(layout.HdrAgent); state != layout.AgentGone {
		t.Errorf("agent %d after its end", state)
	}

	spec := tabletest.Spec()
	f, err := build.Create(filepath.Join(t.TempDir(), "building"), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s, err = control.Serve(f.Path(), f.Nonce); err != nil {
		t.Fatal(err)
	}
	if s.Live() {
		t.Error("live before it is")
	}
	if err := f.Publish(); err != nil || !s.Live() {
		t.Errorf("not live: %v", err)
	}
	s.Close()
	for name, row := range map[string]struct {
		path  string
		nonce [16]byte
		want  error
	}{
		"another's": {live.Path, [16]byte{1}, layout.ErrNotTable},
		"zeros":     {tabletest.Create(t, "z", spec).Path, [16]byte{}, layout.ErrNotTable},
		"no file":   {t.TempDir() + "/no", live.Nonce, os.ErrNotExist},
		"directory": {t.TempDir(), live.Nonce, syscall.EISDIR},
	} {
		if s, err := control.Serve(row.path, row.nonce); s != nil || !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", name, err, row.want)
		}
	}
}

// sleeper is a process that sleeps until the test ends, and maps no table.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

func TestUsed(t *testing.T) {
	first := sleeper(t)
	spec := tabletest.Spec()
	spec.Identity = alive.Identify(first.Process.Pid)
	live := tabletest.Create(t, "a.dynprof", spec)
	s, err := control.Serve(live.Path, live.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	used := func(what string, want bool) {
		t.Helper()
		if got, err := s.Used(); got != want || err != nil {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	live.Close()
	used("the first process lives", true)
	first.Process.Kill()
	first.Wait()
	mapping := tabletest.Map(t, live.Path)
	used("another has it mapped, whose row is not there", false) // a reader, it seems
	live = tabletest.OpenLive(t, live.Path)
	live.Row(layout.Row{Index: 1, State: layout.RowLive, Pid: uint32(sleeper(t).Process.Pid)})
	live.Close()
	used("a child has it mapped", true)
	if err := syscall.Munmap(mapping); err != nil {
		t.Fatal(err)
	}
	used("nobody has it", false)
	s.Ready() // and it is mapped again
	if !s.Live() {
		t.Error("not mapped")
	}
}

// A file that is cut short under the agent, or under who asks, is an error.
func TestCutShort(t *testing.T) {
	for _, size := range []int64{0, layout.HeaderSize} {
		live := ours(t)
		s, err := control.Serve(live.Path, live.Nonce)
		if err != nil {
			t.Fatal(err)
		}
		s.Ready()
		whole, want, patience := size == layout.HeaderSize, layout.ErrTruncated, long
		if whole {
			want, patience = control.ErrAgentGone, short // the words are there, and nobody answers
		}
		asked := make(chan error)
		go func() {
			_, err := control.Ask(live.Path, layout.RequestPause, patience)
			asked <- err
		}()
		for live.Load(layout.HdrRequest) == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := os.Truncate(live.Path, size); err != nil {
			t.Fatal(err)
		}
		if err := <-asked; !errors.Is(err, want) {
			t.Errorf("%d bytes: who asks gets %v, want %v", size, err, want)
		}
		served := false
		s.Wait(short, func(uint32) int { served = true; return 0 })
		if used, err := s.Used(); served != whole || used != whole || (err == nil) != whole || s.Live() != whole {
			t.Errorf("%d bytes: served %v, used %v, live %v, %v", size, served, used, s.Live(), err)
		}
		s.Ready()
		s.Close()
	}
}

// The program has ended, and its table is damaged: there is nothing to wait for.
func TestUsedDamaged(t *testing.T) {
	live := tabletest.Create(t, "a.dynprof", tabletest.Spec())
	s, err := control.Serve(live.Path, live.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	live.Write(layout.HdrMagic, []byte("X"))
	if used, err := s.Used(); used || !errors.Is(err, layout.ErrTruncated) {
		t.Errorf("%v, %v", used, err)
	}
}

func TestAwaitAgent(t *testing.T) {
	first := sleeper(t)
	spec := tabletest.Spec()
	spec.Identity = alive.Identify(first.Process.Pid)
	withAgent := func(t *testing.T, pid int) *tabletest.Live {
		live := tabletest.Create(t, "a.dynprof", spec)
		live.Word(layout.HdrAgent, layout.AgentReady)
		live.Word(layout.HdrAgentPid, uint32(pid))
		return live
	}
	t.Run("leaves", func(t *testing.T) {
		agent := sleeper(t)
		live := withAgent(t, agent.Process.Pid)
		var gone atomic.Bool
		go func() {
			time.Sleep(short)
			gone.Store(true) // first: who waits may look at once
			live.Word(layout.HdrAgent, layout.AgentGone)
			agent.Process.Kill()
			agent.Wait()
		}()
		control.AwaitAgent(live.Path, long)
		if !gone.Load() {
			t.Error("it was there still")
		}
	})
	t.Run("has left, and is there still", func(t *testing.T) {
		agent := sleeper(t)
		live := withAgent(t, agent.Process.Pid)
		live.Word(layout.HdrAgent, layout.AgentGone)
		var gone atomic.Bool
		go func() {
			time.Sleep(10 * time.Millisecond)
			gone.Store(true)
			agent.Process.Kill()
			agent.Wait()
		}()
		begin := time.Now()
		control.AwaitAgent(live.Path, long)
		if !gone.Load() && time.Since(begin) < 100*time.Millisecond { // it waits a while, and no more
			t.Error("did not wait")
		}
	})
	// What would wait for a minute, if it waited, does not.
	for name, path := range map[string]func(t *testing.T) string{
		"has left": func(t *testing.T) string {
			live := withAgent(t, os.Getpid())
			live.Word(layout.HdrAgent, layout.AgentGone)
			return live.Path
		},
		"missing":         func(t *testing.T) string { return filepath.Join(t.TempDir(), "a") },
		"none is to come": func(t *testing.T) string { return tabletest.Create(t, "a.dynprof", spec).Path },
		"a process counts": func(t *testing.T) string {
			live := ours(t)
			m := tabletest.Map(t, live.Path)
			t.Cleanup(func() { syscall.Munmap(m) })
			return live.Path
		},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			control.AwaitAgent(path(t), long)
			if time.Since(begin) >= long {
				t.Error("waited all the time")
			}
		})
	}
	t.Run("stays", func(t *testing.T) {
		live := withAgent(t, os.Getpid())
		begin := time.Now()
		control.AwaitAgent(live.Path, short)
		if time.Since(begin) < short {
			t.Error("did not wait")
		}
	})
}
