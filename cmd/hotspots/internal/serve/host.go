package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/dynprof/dynprof/exporter"
)

// Host is the endpoint of all programs whose tables are in some directories.
type Host struct {
	exporter.Options
	Dirs      func() []string // looked up anew each time
	Linger    time.Duration   // how long programs that have ended are served
	Listen    []string        // addresses, as listen.Parse reads them
	Systemd   bool            // take the sockets that systemd opened instead
	WebConfig string          // the toolkit's file for TLS and passwords; empty: neither
	State     string          // file in which series are remembered; empty: nowhere
	Push      *Push           // nil: nothing is sent
	Messages  io.Writer
}

// hostMemory is what the heap is kept below, if that is possible.
const hostMemory = 150 << 20

// Run serves until ctx is done.
func (h *Host) Run(ctx context.Context) error {
	if h.WebConfig != "" {
		if err := web.Validate(h.WebConfig); err != nil {
			return fmt.Errorf("%s: %w", h.WebConfig, err)
		}
	}
	listeners, undo, err := h.listeners()
	defer undo()
	context.AfterFunc(ctx, undo)
	if err != nil {
		return err
	}
	for _, l := range listeners {
		fmt.Fprintf(h.Messages, "hotspots: serving at %s\n", l.Addr())
	}
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(hostMemory)
	if h.State != "" {
		// Whatever is wrong with it, the metrics are served.
		if h.Series, err = exporter.OpenKept(h.State, h.complain()); err != nil {
			fmt.Fprintf(h.Messages, "hotspots: series are not remembered for the next start: %v\n", err)
		} else {
			defer h.Series.Close()
		}
	}
	e := exporter.NewHost(h.Dirs, h.Linger, h.Options)
	defer e.Close()
	mux, err := handler(e, h.Options, "dynprof", "Calls of every function of the programs that are counted on this host.", true)
	if err != nil {
		return err
	}
	if h.Push != nil {
		var pushing sync.WaitGroup
		defer pushing.Wait() // the last round, when ctx is done
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		pushing.Go(func() {
			(&pusher{Push: h.Push, endpoint: e, mangled: h.Mangled, linger: h.Linger, complain: h.complain()}).run(ctx)
		})
	}
	return run(ctx, mux, listeners, h.WebConfig, h.Messages)
}

// complain returns what reports the first error.
func (h *Host) complain() func(error) {
	var once sync.Once
	return func(err error) {
		once.Do(func() { fmt.Fprintf(h.Messages, "hotspots: %v\n", err) })
	}
}

func (h *Host) listeners() (all []net.Listener, undo func(), err error) {
	var undos []func()
	undo = func() {
		for _, u := range undos {
			u()
		}
	}
	if h.Systemd {
		all, err = activation.Listeners()
		if err == nil && len(all) == 0 {
			err = errors.New("systemd has passed no socket: start the .socket unit")
		}
		return all, undo, err
	}
	for _, address := range h.Listen {
		l, u, err := open(address)
		if err != nil {
			return nil, undo, err
		}
		all, undos = append(all, l), append(undos, u)
	}
	return all, undo, nil
}
