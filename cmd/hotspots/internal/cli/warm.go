package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/system"
	"github.com/dynprof/dynprof/internal/plancache/textcopy"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/regions"
)

// warmFlags are what plans depend on, besides the objects themselves.
type warmFlags struct {
	objects, threshold, library string
	keepCalls                   bool
	blocks, edges, trips        bool
	heat                        string
	regions                     bool
	textCopies                  bool
}

func (a *app) cacheWarmCommand() *cobra.Command {
	f := warmFlags{}
	cmd := &cobra.Command{
		Use:   "warm PROGRAM...",
		Short: "Plan programs and their libraries now, for later runs",
		Long: "Start each PROGRAM with its libraries, keep what is found out about them, and end it before anything of it runs. " +
			"A directory stands for the programs in it.\n\n" +
			"Plans depend on the flags below: say what the runs will say.",
		Example: "  hotspots cache warm ./app\n  hotspots cache warm /usr/bin\n  hotspots cache warm --objects all python3 perl\n  hotspots cache warm --system /usr/bin",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("no program named: hotspots cache warm PROGRAM..., see hotspots cache warm --help")
			}
			return f.validate()
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.cacheWarm(&f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.objects, "objects", "", setting.All[setting.Objects].Help)
	flags.StringVar(&f.threshold, "threshold", "", "as of the runs: `N` calls of every function")
	flags.BoolVar(&f.keepCalls, "keep-calls", false, "leave calls as they are, as the runs will")
	flags.BoolVar(&f.blocks, "blocks", false, "for runs that count blocks")
	flags.BoolVar(&f.edges, "edges", false, "for runs that count calls by their sites, or, with --blocks, whom calls by pointers reach")
	flags.BoolVar(&f.trips, "trips", false, "for runs that count trips of loops")
	flags.StringVar(&f.heat, "heat", "", "for runs that note which of the `GRANULES` of memory are touched: as of the runs")
	flags.Lookup("heat").NoOptDefVal = setting.HeatUsual
	flags.BoolVar(&f.regions, "regions", false, "for runs with --regions or --region")
	flags.BoolVar(&f.textCopies, "text-copies", false, "keep copies of large objects, too, as the runs use them")
	flags.StringVar(&f.library, "library", "", setting.All[setting.Library].Help)
	return cmd
}

func (f *warmFlags) validate() error {
	if err := checkGranules("--heat", f.heat); err != nil {
		return usage("%w", err)
	}
	if f.heat != "" && f.regions {
		return usage("--regions does not go with --heat")
	}
	if f.objects != "" {
		if _, err := symname.ParseObjects(f.objects); err != nil {
			return usage("--objects: %w", err)
		}
	}
	if f.threshold != "" {
		if t, err := symname.ParseThresholds(f.threshold); err != nil {
			return usage("--threshold: %w", err)
		} else if !t.Same() {
			return usage("--threshold %s: plans of thresholds by name are not kept", f.threshold)
		}
	}
	return nil
}

// cacheWarm starts all programs, one after the other: a planner uses all CPUs.
func (a *app) cacheWarm(f *warmFlags, args []string) error {
	if a.systemPlans && os.Geteuid() != 0 {
		return usage("--system: only root keeps plans for all users")
	}
	programs, err := a.programsIn(args)
	if err != nil {
		return err
	}
	library, err := launch.UserLibrary(f.library, a.library)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hotspots-warm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	before, bar, failed := len(a.plansNow()), a.countBar(len(programs), "planning"), 0
	for _, p := range programs {
		bar.Describe(filepath.Base(p.Path))
		err := f.start(ctx, p, a.plansDir(), library, dir)
		if ctx.Err() != nil {
			bar.Finish()
			return &exitError{exitInterrupted, errors.New("interrupted; what was planned is kept")}
		}
		if err != nil {
			bar.Clear()
			a.say("%s: %v", p.Path, err)
			failed++
		}
		bar.Add(1)
	}
	bar.Finish()
	if f.textCopies {
		if err := a.fillCopies(); err != nil {
			a.say("a copy of a program's text could not be made: %v", err)
		}
	}
	a.say("%d programs: %d more plans", len(programs)-failed, len(a.plansNow())-before)
	if failed > 0 {
		return &exitError{status: exitFailure}
	}
	return nil
}

// fillCopies makes the copies that plans lack, of all: that of an earlier run may not have
// been made.
func (a *app) fillCopies() error {
	s, err := a.openPlans()
	if s == nil || err != nil {
		return err
	}
	defer s.Close()
	_, err = textcopy.Fill(s, time.Time{})
	return err
}

// plansNow are the files of plans that there are.
func (a *app) plansNow() []string {
	list, _ := filepath.Glob(filepath.Join(a.plansDir(), "*.plan")) // the pattern is sound
	return list
}

// programsIn finds the programs. Those in a directory that the library does not get
// into are left out; those that are named are errors.
func (a *app) programsIn(args []string) (all []*launch.Program, err error) {
	for _, arg := range args {
		entries, err := os.ReadDir(arg)
		if err != nil {
			p, err := launch.Resolve([]string{arg}, searchPath())
			if err != nil {
				return nil, startError(err)
			}
			if p.Why != "" {
				return nil, fmt.Errorf("nothing can be planned: %s", p.Why)
			}
			all = append(all, p)
			continue
		}
		for _, e := range entries {
			path, err := filepath.Abs(filepath.Join(arg, e.Name())) // without a slash it would be looked for
			if err != nil {
				return nil, err
			}
			p, err := launch.Resolve([]string{path}, searchPath())
			if err == nil && p.Why == "" && system.IsELF(p.Path) {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// memory makes what copies of functions note memory in, of which the library wants to know that
// it is there: nothing runs that would. Path is the one by which a program opens it.
func (f *warmFlags) memory() (path string, done func(), err error) {
	switch {
	case f.heat != "":
		s, err := heat.Named(f.heat)
		if err != nil {
			return "", nil, fmt.Errorf("touched memory could not be noted: %w", err)
		}
		return s.Path(), s.Close, nil
	case f.regions:
		r, err := regions.New()
		if err != nil {
			return "", nil, fmt.Errorf("accesses could not be recorded: %w", err)
		}
		return r.Path(), r.Close, nil
	}
	return "", func() {}, nil
}

// start lets the library plan p, and end it.
func (f *warmFlags) start(ctx context.Context, p *launch.Program, plans, library, dir string) error {
	memory, done, err := f.memory()
	if err != nil {
		return err
	}
	defer done()
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	table, settings := filepath.Join(dir, "table"), map[setting.ID]string{}
	for id := range setting.Count {
		settings[id] = "" // whatever the environment says
	}
	settings[setting.Cache], settings[setting.Output], settings[setting.Objects], settings[setting.Threshold] = "only:"+plans, table, f.objects, f.threshold
	if f.keepCalls {
		settings[setting.KeepCalls] = "1"
	}
	if f.blocks {
		settings[setting.Blocks] = "1"
	}
	if f.edges {
		settings[setting.Edges] = "1"
	}
	if f.trips {
		settings[setting.Trips] = "1"
	}
	settings[setting.Heat] = memory
	if f.regions {
		settings[setting.Regions] = "1"
	}
	c := exec.CommandContext(ctx, p.Path)
	c.Args, c.Env = p.Args, launch.Environ(os.Environ(), library, p.Preload, settings)
	c.WaitDelay = time.Second // whoever has its output
	out, err := c.CombinedOutput()
	if err == nil {
		if err = os.Remove(table); err != nil {
			err = errors.New("it has run: something keeps libraries from being preloaded")
		}
		return err
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n"); line != "" {
		return errors.New(line)
	}
	return err
}

// countBar shows how many of n have been done, on a terminal only.
func (a *app) countBar(n int, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions(n, progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(term.IsTerminal(2)))
}
