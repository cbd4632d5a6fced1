package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/live"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/screen"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/top"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
)

type topFlags struct {
	sort, by, filter string
	interval         time.Duration
	once             bool
}

// leastInterval is how often tables are read at most.
const leastInterval = 100 * time.Millisecond

func (a *app) topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top [TABLE|PID]",
		Short: "Watch a program's calls while it runs",
		Long: "Show calls a second and all calls of a program's functions, objects or threads on the whole terminal, while it runs and after.\n" +
			"Without argument: the newest program that runs, else the newest table. Press ? for the keys.\n" +
			"The program is not slowed down: only its count table is read.",
		Example: "  hotspots top\n  hotspots top 4711\n  hotspots top --sort calls --interval 5s\n  hotspots top --by thread app.dynprof\n  hotspots top --once --filter parse_ | head     one screen, as text",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if f.interval < leastInterval {
				return usage("--interval %v: it is %v or more", f.interval, leastInterval)
			}
			if !f.once && !screen.Usable() {
				return errors.New("top needs a terminal: use hotspots report, or hotspots top --once")
			}
			path, err := watched(args)
			if err != nil {
				return err
			}
			return a.top(path, f)
		},
	}
	choiceFlag(cmd, &f.sort, "sort", top.Orders, "`order` at first")
	choiceFlag(cmd, &f.by, "by", top.Groups, "`what` a line is at first")
	cmd.Flags().StringVar(&f.filter, "filter", "", "show at first only names and objects with this `TEXT` in them")
	cmd.Flags().DurationVar(&f.interval, "interval", time.Second, "`time` between two readings")
	cmd.Flags().BoolVar(&f.once, "once", false, "print one screen as text")
	return cmd
}

// watched is the path of the table that an argument means: without one the newest of a
// program that runs, if some does.
func watched(args []string) (string, error) {
	if len(args) > 0 {
		return locate(args[0])
	}
	all, err := find.List(searchDirs(os.Getuid())...)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(e *find.Entry) bool { return e.State == layout.StateLive && e.Status == alive.Running })
	if i < 0 {
		return newest()
	}
	return all[i].Path, nil
}

func (a *app) top(path string, f topFlags) error {
	others := &live.Others{Dirs: searchDirs(os.Getuid())}
	namer, err := a.namer()
	if err != nil {
		return err
	}
	name := namer.Name
	p, err := live.Open(path, a.noDemangle, name, others)
	if err != nil {
		return err
	}
	m := top.New(top.Options{Interval: f.interval, Sort: f.sort, By: f.by, Filter: f.filter, ASCII: !isUTF8()})
	if f.once {
		defer p.Close()
		return a.topOnce(m, p, path, f.interval)
	}
	s, err := screen.Open(os.Getenv("NO_COLOR") != "")
	if err != nil {
		p.Close()
		return err
	}
	defer s.Close()
	namer.Say = nil // the screen is not for messages
	v := &topView{
		Model: m, screen: s, program: p, timer: time.NewTimer(0),
		open: func(path string) (*live.Program, error) { return live.Open(path, a.noDemangle, name, others) },
	}
	err = v.run()
	s.Close()
	v.program.Leave()
	return err
}

// isUTF8 reports whether the locale's characters are UTF-8 (locale(7)).
func isUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := os.Getenv(name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

// topOnce prints one screen. Calls a second are those of one interval.
func (a *app) topOnce(m *top.Model, p *live.Program, path string, interval time.Duration) error {
	m.Resize(screen.Size(120, 40))
	f := p.Read(m.WantsPrograms())
	if f.Err != nil {
		return fmt.Errorf("%s: %w", path, f.Err)
	}
	if m.Frame(f); f.Running {
		time.Sleep(interval)
		if f = p.Read(m.WantsPrograms()); f.Err != nil {
			return fmt.Errorf("%s: %w", path, f.Err)
		}
		m.Frame(f)
	}
	_, err := fmt.Fprint(a.stdout, m.Print())
	return err
}

// topView is the view on a terminal. All but reading is done by one goroutine.
type topView struct {
	*top.Model
	screen  *screen.Screen
	program *live.Program
	open    func(path string) (*live.Program, error)
	timer   *time.Timer // of the next reading

	frames   chan reading
	details  chan detail
	reading  bool // a frame is being read
	detail   bool // a detail is being read
	readings int
}

// reading is a frame with the program that it is of.
type reading struct {
	of *live.Program
	*top.Frame
	took time.Duration
}

// detail is all about a function, with the program that it is of.
type detail struct {
	of *live.Program
	*top.Detail
}

// soon is when the second reading comes, so that there are rates to be seen.
const soon = 300 * time.Millisecond

// rest is how many times as long as a reading takes there is none: a table of very many
// functions and threads is read less often than was asked for.
const rest = 20

func (v *topView) run() error {
	v.frames, v.details = make(chan reading), make(chan detail)
	v.Resize(screen.Size(80, 24))
	for {
		if err := v.screen.Show(v.View()); err != nil {
			return gone(err)
		}
		select {
		case msg := <-v.screen.Messages:
			if done, err := v.message(msg); done {
				return err
			}
		case f := <-v.frames:
			v.reading = false
			if f.of == v.program {
				v.frame(f)
			}
			v.readDetail()
		case d := <-v.details:
			v.detail = false
			if d.of == v.program {
				v.Detail(d.Detail)
			}
		case <-v.timer.C:
			v.read()
		}
	}
}

func (v *topView) frame(f reading) {
	v.Frame(f.Frame)
	next := v.Interval
	if v.readings++; v.readings == 1 {
		next = min(next, soon)
	}
	v.timer.Reset(max(next, rest*f.took))
}

// read has a frame read, unless one is.
func (v *topView) read() {
	if v.reading {
		return
	}
	v.reading = true
	p, programs := v.program, v.WantsPrograms()
	go func() {
		began := time.Now()
		f := p.Read(programs)
		v.frames <- reading{p, f, time.Since(began)}
	}()
}

// readDetail has read what is shown of one function, if it is, unless that is being read.
func (v *topView) readDetail() {
	i, ok := v.WantsDetail()
	if !ok || v.detail {
		return
	}
	v.detail = true
	p := v.program
	go func() { v.details <- detail{p, p.Detail(i)} }()
}

// bySignal is added to the number of a signal that ends the command.
const bySignal = 128

// gone is the error that the terminal is: often the signal comes a moment later.
func gone(err error) error {
	return &exitError{bySignal + int(syscall.SIGHUP), fmt.Errorf("the terminal is gone: %w", err)}
}

// message does what the terminal says. It reports whether that is the end.
func (v *topView) message(msg screen.Message) (done bool, err error) {
	switch {
	case msg.Err != nil:
		return true, gone(msg.Err)
	case msg.End != 0:
		return true, &exitError{status: bySignal + int(msg.End)}
	case msg.Again:
		if err := v.screen.Again(); err != nil {
			return true, gone(err)
		}
	}
	v.Resize(screen.Size(80, 24))
	for _, key := range msg.Keys {
		if done, err := v.key(v.Key(key)); done {
			return true, err
		}
	}
	return false, nil
}

// key does what a key asks for beyond the view. It reports whether that is the end.
func (v *topView) key(action top.Action) (done bool, err error) {
	switch action {
	case top.Quit:
		return true, nil
	case top.Suspend:
		err = v.screen.Suspend()
		v.Resize(screen.Size(80, 24))
	case top.Redraw:
		err = v.screen.Again()
	case top.Open:
		v.choose(v.Chosen())
	}
	if err != nil {
		return true, gone(err)
	}
	v.readDetail()
	if v.WantsPrograms() && !v.HasPrograms() {
		v.timer.Reset(0)
	}
	return false, nil
}

// choose goes on with another program, if its table can be read: else it has just ended, and
// is no longer in the list soon.
func (v *topView) choose(path string) {
	p, err := v.open(path)
	if err != nil {
		return
	}
	old := v.program
	go old.Close() // when it is not read any more
	v.program, v.readings = p, 0
	v.Switched()
	v.timer.Reset(0)
}
