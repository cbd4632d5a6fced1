package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/serve"
	"github.com/dynprof/dynprof/exporter"
	"github.com/dynprof/dynprof/internal/listen"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// serveAddress is where hotspots serve listens unless told otherwise.
const serveAddress = "127.0.0.1:9465"

func (a *app) serveCommand() *cobra.Command {
	h := serve.Host{}
	var users, headers []string
	var push string
	pushEvery := 15 * time.Second
	var allUsers bool
	cmd := &cobra.Command{
		Use:   "serve [DIR]...",
		Short: "Serve the counts of all programs for Prometheus",
		Long: "Serve metrics of every program whose count table is in the default directories of this user, of the users named, or in the directories named. Programs are found as they come and go, and take no part.\n\n" +
			"/metrics has all of them, with the labels program and pid; /sd is Prometheus's HTTP service discovery, a target for each program; /pprof/calls?pid=PID is a profile of a program's calls, for pprof, Parca and Pyroscope (with &seconds=N of those of the next N seconds); /-/healthy says that the endpoint is alive.\n" +
			"ADDRESS is IP:PORT, PORT (of 127.0.0.1), or unix:PATH, a socket of mode 0600. FILE of --web-config is that of Prometheus's exporter toolkit: TLS and passwords.",
		Example: "  hotspots serve\n  hotspots serve --listen 0.0.0.0:9465 --web-config web.yml\n  sudo hotspots serve --all-users\n  hotspots serve /var/tmp/tables\n  hotspots serve --push http://pyroscope:4040",
		RunE: func(cmd *cobra.Command, args []string) error {
			if h.Top < 1 || h.Linger < 0 {
				return usage("--top is 1 or more, --linger 0s or more")
			}
			if h.Systemd && cmd.Flags().Changed("listen") {
				return usage("--systemd-socket and --listen exclude each other")
			}
			dirs, err := tableDirs(args, users, allUsers)
			if err != nil {
				return err
			}
			if push != "" {
				if h.Push, err = newPush(push, headers, pushEvery); err != nil {
					return err
				}
				if pushEvery > h.Linger {
					return usage("--push-every %v is longer than --linger %v: what a program has called last would be lost", pushEvery, h.Linger)
				}
			}
			h.Dirs, h.Mangled, h.Messages = dirs, a.noDemangle, a.stderr
			if !cmd.Flags().Changed("state") {
				h.State = stateFile(&h)
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return h.Run(ctx)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&h.Listen, "listen", []string{serveAddress}, "listen at this `ADDRESS`; may be given several times")
	flags.BoolVar(&h.Systemd, "systemd-socket", false, "listen at the sockets that systemd has opened")
	flags.StringVar(&h.WebConfig, "web-config", "", "take TLS and passwords from this `FILE`")
	flags.StringArrayVar(&users, "user", nil, "serve the programs of this `USER`, by name or number; may be given several times")
	flags.BoolVar(&allUsers, "all-users", false, "serve the programs of all users")
	flags.StringVar(&h.State, "state", "", "remember series in this `FILE` for the next start; \"\" is nowhere (default: one for this address, beside the count tables of this user)")
	flags.StringVar(&push, "push", "", "send profiles of calls to the server at this `URL`, too, as Pyroscope takes them: URL/ingest")
	flags.StringArrayVar(&headers, "push-header", nil, "send this `NAME: VALUE` with each profile, as X-Scope-OrgID; may be given several times")
	flags.DurationVar(&pushEvery, "push-every", pushEvery, "send one of each program so often, of the calls of that `time`")
	flags.DurationVar(&h.Linger, "linger", time.Minute, "serve the last counts of programs that have ended for this `time`")
	flags.IntVar(&h.Top, "top", exporter.DefaultTop, "the `N` functions called most of each program have series of their own")
	return cmd
}

// stateFile is where series are remembered unless told otherwise: in the
// directory that systemd has made for it (StateDirectory=), or beside this user's
// tables, for each address its own. A port that the kernel chooses is another the
// next time, so nothing is remembered.
func stateFile(h *serve.Host) string {
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); h.Systemd && filepath.IsAbs(dir) {
		return filepath.Join(dir, "series")
	}
	if h.Systemd || len(h.Listen) == 0 {
		return ""
	}
	at, err := listen.Parse(h.Listen[0])
	if err != nil || at.Path == "" && at.Port == 0 {
		return ""
	}
	dir := tabledir.Default(os.Getenv("XDG_RUNTIME_DIR"), os.Getuid())
	if err := tabledir.MakePrivate(dir); err != nil {
		return ""
	}
	name := at.String()
	if at.Path != "" { // it may be longer than a file name
		sum := fnv.New64a()
		io.WriteString(sum, name)
		name = fmt.Sprintf("unix-%x", sum.Sum64())
	}
	return filepath.Join(dir, "serve-"+name+".series")
}

// tableDirs is where to look: they are listed anew each time, since the
// directories of a user may come and go.
func tableDirs(args, users []string, all bool) (func() []string, error) {
	var uids []int
	for _, name := range users {
		uid, err := uidOf(name)
		if err != nil {
			return nil, err
		}
		uids = append(uids, uid)
	}
	if all && len(users) > 0 {
		return nil, usage("--all-users and --user exclude each other")
	}
	return func() []string {
		dirs := slices.Clone(args)
		for _, uid := range uids {
			dirs = append(dirs, tabledir.Search("", uid)...)
		}
		if all {
			dirs = append(dirs, tabledir.SearchAll()...)
		}
		if len(args) == 0 && len(users) == 0 && !all {
			dirs = searchDirs(syscall.Getuid())
		}
		slices.Sort(dirs)
		return slices.Compact(dirs)
	}, nil
}

func uidOf(name string) (int, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return int(uid), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Uid)
}

// agentCommand is what the planning twin of a program executes when it is told
// to listen (libdynprof/agent.go).
func (a *app) agentCommand() *cobra.Command {
	p := serve.Program{}
	var nonce string
	cmd := &cobra.Command{
		Use: "agent", Hidden: true, Short: "Serve the counts of one program, for libdynprof.so",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if n, err := hex.Decode(p.Nonce[:], []byte(nonce)); err != nil || n != len(p.Nonce) {
				return errors.New("not a nonce")
			}
			if p.Linger < 0 {
				return fmt.Errorf("--linger %v", p.Linger)
			}
			return p.Run()
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&p.Table, "table", "", "")
	flags.StringVar(&nonce, "nonce", "", "")
	flags.StringVar(&p.Address, "address", "", "")
	flags.IntVar(&p.Socket, "socket", -1, "")
	flags.DurationVar(&p.Linger, "linger", 0, "")
	return cmd
}

// newPush reads the flags of --push.
func newPush(to string, headers []string, every time.Duration) (*serve.Push, error) {
	u, err := serve.ParsePush(to)
	if err != nil {
		return nil, usage("--push: %w", err)
	}
	const least = time.Second
	if every < least {
		return nil, usage("--push-every %v: it is 1s or more", every)
	}
	p := &serve.Push{To: u, Headers: http.Header{}, Every: every}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(strings.TrimSpace(value)) {
			return nil, usage("--push-header %q is not NAME: VALUE", h)
		}
		p.Headers.Add(name, strings.TrimSpace(value))
	}
	return p, nil
}
