// Package web shows programs that count in a browser of the same machine: a page, which is
// part of this binary, and what it asks for. docs/web.md describes the answers.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/live"
	"github.com/dynprof/dynprof/exporter"
	"github.com/dynprof/dynprof/internal/table"
)

// Schema is the version of all answers.
const Schema = 1

// Bounds of what others can make a server hold.
const (
	maxConnections = 64
	maxPrograms    = 16 // that are read, besides those that it began with
)

// Options of New.
type Options struct {
	Interval time.Duration // between readings
	Mangled  bool          // names as they are in the file
	Dirs     func() []string
	Name     func(*table.Table) // names what has no name, one at a time; may be nil
	Find     *debugfile.Finder  // what has source lines; nil: they are not looked for
	TLS      *tls.Config        // nil: none, and this machine alone
}

// Server shows programs.
type Server struct {
	Options
	token string
	ctx   context.Context
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu       sync.Mutex
	programs []*program
	asked    int // of those that it did not begin with
	watching int // who see memory

	heavy chan struct{} // holds one while whole tables are read for one answer
}

// New serves nothing yet.
func New(o Options) *Server {
	s := &Server{Options: o, token: newToken(), heavy: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Add shows a program, and closes it at the end. It reports whether it is not shown already.
func (s *Server) Add(source *live.Program) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := newProgram(source, s.Name)
	p.symbols.finder = s.Find
	for _, have := range s.programs {
		if have.id == p.id {
			return false
		}
	}
	s.programs = append(s.programs, p)
	s.done.Go(func() { s.follow(p) })
	return true
}

// follow reads a program until the end.
func (s *Server) follow(p *program) {
	for {
		wait := p.read(s.Interval)
		if f, err := p.last(); err == nil {
			p.ledger.textOf(f.Book) // an error comes again when it is asked for
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// program is the one with that ID.
func (s *Server) program(id string) (*program, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.programs {
		if p.id == id {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no table %.40q is open here", id)
}

// alone waits until nobody else reads whole tables: what many ask for at once takes no more
// memory than for one.
func (s *Server) alone(ctx context.Context) (done func(), err error) {
	select {
	case s.heavy <- struct{}{}:
		return func() { <-s.heavy }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// whole is a program's table, for who reads all of it, alone; done gives it back.
func (s *Server) whole(ctx context.Context, p *program) (t *table.Table, done func(), err error) {
	next, err := s.alone(ctx)
	if err != nil {
		return nil, nil, err
	}
	if t, err = p.openTable(); err != nil {
		next()
		return nil, nil, err
	}
	return t, func() { t.Close(); next() }, nil
}

// all are the programs that are shown.
func (s *Server) all() []*program {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*program(nil), s.programs...)
}

// TLS is how pages of other machines are served, with a certificate and its key, PEM.
func TLS(certificate, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil // which has WebSockets
}

// Listen opens a socket that only this machine reaches, or others, too.
func Listen(address string, others bool) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is not an address to listen at: write 127.0.0.1:PORT", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return nil, fmt.Errorf("%q is not an address to listen at: its port is a number up to 65535", address)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	switch ip := net.ParseIP(host); {
	case others && ip == nil:
		return nil, fmt.Errorf("%q is not an address to listen at: write IP:%s, or 0.0.0.0:%s for all of this machine's", address, port, port)
	case !others && (ip == nil || !ip.IsLoopback()):
		return nil, fmt.Errorf("%q is not of this machine alone, which takes --tls-cert and --tls-key; or listen at 127.0.0.1:%s, and reach it from elsewhere with: ssh -L %s:127.0.0.1:%s HOST", address, port, port, port)
	}
	return net.Listen("tcp", net.JoinHostPort(host, port))
}

// URL is what to open in a browser.
func (s *Server) URL(l net.Listener) string {
	if s.TLS == nil {
		return "http://" + l.Addr().String() + "/#token=" + s.token
	}
	at := l.Addr().String()
	if host, port, err := net.SplitHostPort(at); err == nil && net.ParseIP(host).IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			at = net.JoinHostPort(name, port)
		}
	}
	return "https://" + at + "/#token=" + s.token
}

// Serve answers until ctx is done.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := exporter.NewServer(&guard{token: s.token, next: s.handler(), tls: s.TLS != nil})
	stop := context.AfterFunc(ctx, func() { h.Close() })
	defer stop()
	l = netutil.LimitListener(l, maxConnections)
	if s.TLS != nil {
		l = tls.NewListener(l, s.TLS)
	}
	err := h.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// Close ends all readings.
func (s *Server) Close() {
	s.mu.Lock()
	s.stop() // nobody enters any more
	s.mu.Unlock()
	s.done.Wait()
	for _, p := range s.all() {
		p.source.Leave()
	}
}
