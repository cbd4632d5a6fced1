// Package serve runs the endpoints for metrics: of all programs of a host, and,
// as what the agent of a program becomes, of one.
package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/netutil"

	"github.com/dynprof/dynprof/exporter"
	"github.com/dynprof/dynprof/internal/listen"
	"github.com/dynprof/dynprof/internal/version"
)

// handler answers /metrics, /pprof/calls, /-/healthy, a page that says so, and /sd if there
// are many programs.
func handler(e *exporter.Endpoint, opt exporter.Options, name, about string, many bool) (http.Handler, error) {
	links := []web.LandingLinks{
		{Address: "metrics", Text: "Metrics", Description: "for Prometheus; ?top=N, ?function[]=GLOB"},
		{Address: "pprof/calls", Text: "Profile", Description: "of all calls, for pprof, Parca, Pyroscope; ?seconds=N: of the next N seconds" + map[bool]string{true: "; ?pid=PID"}[many]},
		{Address: "-/healthy", Text: "Health"},
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", e)
	mux.Handle("/pprof/calls", newProfiles(e, opt, many))
	mux.HandleFunc("/-/healthy", exporter.Healthy)
	if many {
		mux.HandleFunc("/sd", e.Discovery)
		links = append(links, web.LandingLinks{Address: "sd", Text: "Programs", Description: "HTTP service discovery"})
	}
	page, err := web.NewLandingPage(web.LandingConfig{
		Name: name, Description: about, Version: version.Version, Links: links, HeaderColor: "#444", Profiling: "false",
	})
	if err != nil {
		return nil, err
	}
	mux.Handle("/{$}", page)
	return mux, nil
}

// open opens a socket to listen at; undo takes a unix socket's file away again.
func open(address string) (l net.Listener, undo func(), err error) {
	a, err := listen.Parse(address)
	if err != nil {
		return nil, nil, err
	}
	fd, a, err := a.Open()
	if err != nil {
		return nil, nil, err
	}
	undo = remover(a.Path)
	if l, err = listener(fd); err != nil {
		undo()
	}
	return l, undo, err
}

// listener takes over the descriptor of a socket.
func listener(fd int) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close()
	return net.FileListener(f)
}

// remover returns what removes the socket that is at path now, and no other. It
// is called before the listener is closed: then nobody has put another there.
func remover(path string) func() {
	mine, err := os.Lstat(path)
	if path == "" || err != nil || mine.Mode()&os.ModeSocket == 0 {
		return func() {}
	}
	return func() {
		if now, err := os.Lstat(path); err == nil && os.SameFile(mine, now) {
			os.Remove(path)
		}
	}
}

// run serves h at every listener until ctx is done or one of them fails.
// webConfig is the toolkit's file for TLS and passwords, or empty.
func run(ctx context.Context, h http.Handler, listeners []net.Listener, webConfig string, messages io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log := slog.New(slog.NewTextHandler(messages, &slog.HandlerOptions{Level: slog.LevelWarn}))
	systemd, failed := false, make(chan error, len(listeners))
	for _, l := range listeners {
		// A server each: the toolkit changes the server that it is given.
		s := exporter.NewServer(h)
		s.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // bad clients are no news
		go func() {
			failed <- web.Serve(netutil.LimitListener(l, exporter.MaxConnections), s, &web.FlagConfig{WebConfigFile: &webConfig, WebSystemdSocket: &systemd}, log)
		}()
		context.AfterFunc(ctx, func() { s.Close() })
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
}
