package cli

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/live"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/web"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// webAddress is where hotspots web listens unless told otherwise; if somebody else does, at
// a port that the kernel chooses.
const webAddress = "127.0.0.1:9466"

type webFlags struct {
	address  string
	interval time.Duration
	open     bool
	tls      struct{ certificate, key string }
}

func (a *app) webCommand() *cobra.Command {
	var f webFlags
	cmd := &cobra.Command{
		Use:   "web [TABLE|PID]...",
		Short: "Watch programs' calls in a browser",
		Long: "Show calls a second and all calls of programs in a browser of this machine, while they run and after: functions, where calls are, threads, hot events, coverage, and how two tables differ.\n" +
			"Without argument: the newest program that runs, else the newest table. Open the URL that is printed: nobody can without the token in it. Press ? there for the keys; Ctrl-C here ends it.\n" +
			"From another machine: ssh -L 9466:127.0.0.1:9466 HOST, and the same URL; or by TLS, with --tls-cert, --tls-key and --addr. The programs are not slowed down: only their count tables are read.",
		Example: "  hotspots web\n  hotspots web 4711 --open\n  hotspots web yesterday.dynprof today.dynprof     compare them\n  hotspots web --addr 127.0.0.1:0 app.dynprof      at any port that is free\n  hotspots web --addr 0.0.0.0:9466 --tls-cert host.pem --tls-key host.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.interval < leastInterval {
				return usage("--interval %v: it is %v or more", f.interval, leastInterval)
			}
			if (f.tls.certificate == "") != (f.tls.key == "") {
				return usage("--tls-cert and --tls-key: TLS takes both, a certificate and its key")
			}
			return a.web(f, args, cmd.Flags().Changed("addr"))
		},
	}
	cmd.Flags().StringVar(&f.address, "addr", webAddress, "listen at this `IP:PORT` of this machine, of others too with TLS; another port if that is taken, unless you name it")
	cmd.Flags().DurationVar(&f.interval, "interval", time.Second, "`time` between two readings")
	cmd.Flags().BoolVar(&f.open, "open", false, "open it in the browser (xdg-open)")
	cmd.Flags().StringVar(&f.tls.certificate, "tls-cert", "", "speak TLS, with the certificate in this `FILE`, PEM, so that --addr may be one that other machines reach")
	cmd.Flags().StringVar(&f.tls.key, "tls-key", "", "its key is in this `FILE`")
	return cmd
}

func (a *app) web(f webFlags, args []string, named bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	namer, err := a.namer()
	if err != nil {
		return err
	}
	var naming sync.Mutex
	name := func(t *table.Table) {
		naming.Lock()
		defer naming.Unlock()
		namer.Name(t)
	}
	o := web.Options{Interval: f.interval, Mangled: a.noDemangle, Name: name, Find: namer.Find, Dirs: func() []string { return searchDirs(os.Getuid()) }}
	if f.tls.key != "" {
		if o.TLS, err = web.TLS(f.tls.certificate, f.tls.key); err != nil {
			return fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
	}
	s := web.New(o)
	defer s.Close()
	if len(args) == 0 {
		path, err := watched(nil)
		if err != nil {
			return err
		}
		args = []string{path}
	}
	for _, arg := range args {
		path, err := locate(arg)
		if err != nil {
			return err
		}
		p, err := live.Open(path, a.noDemangle, name, nil)
		if err != nil {
			return err
		}
		if !s.Add(p) {
			p.Close()
		}
	}
	l, err := web.Listen(f.address, o.TLS != nil)
	if errors.Is(err, syscall.EADDRINUSE) && !named {
		l, err = web.Listen("127.0.0.1:0", false)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("--addr %s is taken by another program: choose another port, or 0 for any that is free", f.address)
	case err != nil:
		return usage("--addr: %w", err)
	}
	url := s.URL(l)
	fmt.Fprintln(a.stdout, url)
	if err := a.stdout.Flush(); err != nil {
		return err
	}
	if f.open {
		undo, err := openBrowser(url, l.Addr())
		if err != nil {
			a.say("no browser could be opened: %v; open the URL yourself", err)
		}
		defer undo()
	}
	return s.Serve(ctx, l)
}

// openBrowser opens a URL by way of a file that only this user reads: on a command line all
// could see the token.
func openBrowser(url string, at net.Addr) (undo func(), err error) {
	undo = func() {}
	dir := tabledir.Default(os.Getenv("XDG_RUNTIME_DIR"), os.Getuid())
	if err := tabledir.MakePrivate(dir); err != nil {
		return undo, err
	}
	f, err := os.CreateTemp(dir, "web-*.html")
	if err != nil {
		return undo, err
	}
	undo = func() { os.Remove(f.Name()) }
	_, err = fmt.Fprintf(f, "<!doctype html><title>hotspots</title><meta http-equiv=refresh content=\"0; url=%s\"><a href=\"%s\">hotspots at %s</a>\n", html.EscapeString(url), html.EscapeString(url), at)
	if err := errors.Join(err, f.Close()); err != nil {
		return undo, err
	}
	cmd := exec.Command("xdg-open", filepath.ToSlash(f.Name()))
	if err := cmd.Start(); err != nil {
		return undo, err
	}
	go cmd.Wait()
	return undo, nil
}
