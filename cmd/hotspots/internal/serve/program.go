package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/exporter"
	"github.com/dynprof/dynprof/internal/listen"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Program is the endpoint of one program: what its planning twin has become by
// exec (libdynprof/agent.go). It ends after the last process that counts.
type Program struct {
	exporter.Options
	Table   string
	Nonce   [16]byte // which the table has
	Address string   // as listen.Parse reads it
	Socket  int      // that listens there; -1: somebody else does, wait until it is free
	Linger  time.Duration

	terminated chan os.Signal
}

// Times of a program's endpoint.
const (
	startPatience = time.Minute            // until the program counts
	startLook     = 5 * time.Millisecond   // how often it is looked for then
	look          = 500 * time.Millisecond // how often the program is looked for later, or the address
)

// programMemory is what the heap is kept below, if that is possible.
const programMemory = 48 << 20

// Name is what the process is called.
const Name = "dynprof-agent"

// Run serves until the program has ended and its last counts have been scraped,
// or are not wanted.
func (p *Program) Run() error {
	p.terminated = make(chan os.Signal, 1)
	os.Chdir("/")                                      // whatever is mounted there stays; an error changes nothing
	os.WriteFile("/proc/self/comm", []byte(Name), 0o0) // a name for ps; as good as none
	// A signal for the program by its name may reach what was its copy. SIGTERM to
	// all of a service ends the program, so nobody waits for a last scrape.
	signal.Notify(p.terminated, syscall.SIGTERM)
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(programMemory)
	undo := func() {}
	if a, err := listen.Parse(p.Address); err == nil && p.Socket >= 0 {
		undo = remover(a.Path)
	}
	defer func() { undo() }()
	if err := p.awaitStart(); err != nil {
		return err
	}
	e := exporter.NewProgram(p.Table, p.Options)
	defer e.Close()
	l, err := p.listener(e, &undo)
	if l == nil {
		return err
	}
	mux, err := handler(e, p.Options, "dynprof", "Calls of every function of one program.", false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		p.awaitEnd(e)
		undo()
		cancel()
	}()
	return run(ctx, mux, []net.Listener{l}, "", io.Discard)
}

// awaitStart waits until the program counts.
func (p *Program) awaitStart() error {
	for end := time.Now().Add(startPatience); time.Now().Before(end); time.Sleep(startLook) {
		m, err := table.OpenMeter(p.Table)
		if err == nil {
			defer m.Close()
			if m.Nonce != p.Nonce {
				return errors.New("the table is another program's")
			}
			return nil
		}
		if !errors.Is(err, layout.ErrBuilding) {
			return err // it is gone: the program is not counted
		}
	}
	return layout.ErrBuilding
}

// listener is the socket that the twin has opened or, if somebody else listened
// there, one that is opened as soon as that is possible: an endpoint that waits
// for its last scrape keeps its address from the program's next start.
func (p *Program) listener(e *exporter.Endpoint, undo *func()) (l net.Listener, err error) {
	if p.Socket >= 0 {
		return listener(p.Socket)
	}
	for {
		if l, *undo, err = open(p.Address); err == nil {
			return l, nil
		}
		*undo = func() {}
		if !errors.Is(err, listen.ErrInUse) {
			return nil, err
		}
		if counting, err := e.Counting(); !counting {
			return nil, err
		}
		time.Sleep(look)
	}
}

// awaitEnd returns when nobody counts any more, and one more scrape has been
// answered or the time for it is up.
func (p *Program) awaitEnd(e *exporter.Endpoint) {
	for {
		if counting, err := e.Counting(); err != nil || !counting {
			break
		}
		time.Sleep(look)
	}
	ended := time.Now()
	for end := ended.Add(p.Linger); time.Now().Before(end) && !e.AnsweredSince(ended); {
		select {
		case <-p.terminated:
			return
		case <-time.After(look / 5):
		}
	}
}
