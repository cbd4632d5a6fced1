// Package agent is what the planning twin becomes under run --control: a process
// beside the program that does what is asked of it from outside, through the
// table, for as long as one of the program's processes lives. It sleeps in the
// meantime, holds no descriptor but the table's, and touches no process.
package agent

import (
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/table/control"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Agent is the agent of one program.
type Agent struct {
	Path  string   // of the table
	Nonce [16]byte // which it has

	// SetPaused has all stubs count or not. It returns how many could not be
	// reached, or a negative errno.
	SetPaused func(table *os.File, paused bool) int
	// Turn has blocks of functions counted or not. What it returns is as of SetPaused.
	Turn func(table *os.File, turns []Turn) int
}

// Turn says whether blocks of a function shall be counted: a struct dp_turn
// (libdynprof/resident/stubs/pause.h).
type Turn struct {
	Function uint32 // number in the table
	On       uint32
}

// How often the agent looks whether the program is there when nothing tells it.
// When the first process has ended it looks at once, then less and less often:
// somebody may just have the table open, so that it seems in use.
const (
	look  = time.Second
	first = time.Millisecond
)

// heap is what the agent may take for itself; planning took more.
const heap = 16 << 20

// Run serves until the last process of the program has ended, or the program is
// not counted after all.
func (a *Agent) Run() error {
	s, err := control.Serve(a.Path, a.Nonce)
	if err != nil {
		return err
	}
	defer s.Close()
	os.Chdir("/") // whatever is mounted there stays; an error changes nothing
	// A signal for the program by its name may reach its copy.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(heap)
	debug.FreeOSMemory()

	var mu sync.Mutex // Used maps the table anew
	var ended atomic.Bool
	go func() {
		mem.AwaitProcess(s.Pid())
		ended.Store(true)
		mu.Lock()
		defer mu.Unlock()
		s.Wake()
	}()
	since := first
	var o *observer
	for begun := false; ; {
		if !begun && s.Live() {
			begun = true
			s.Ready()
			o = a.observe(s)
		}
		patience := look
		switch {
		case !begun:
			patience = look / 100
		case ended.Load():
			patience, since = since, min(2*since, look)
		}
		patience = o.patience(patience)
		s.Wait(patience, func(what uint32) int { return a.do(s.File(), what) })
		o.look()
		mu.Lock()
		used, err := s.Used()
		mu.Unlock()
		if !used {
			o.end()
		}
		if err != nil || !used || !begun && removed(s.File()) {
			return err
		}
	}
}

func (a *Agent) do(f *os.File, what uint32) int {
	switch what {
	case layout.RequestPause, layout.RequestResume:
		return a.SetPaused(f, what == layout.RequestPause)
	}
	return -int(syscall.ENOSYS)
}

// removed reports whether the table has lost its name: the program is not
// counted.
func removed(f *os.File) bool {
	fi, err := f.Stat()
	return err != nil || fi.Sys().(*syscall.Stat_t).Nlink == 0
}
