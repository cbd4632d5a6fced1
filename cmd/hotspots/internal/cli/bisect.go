package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/bisect"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/textfile"
)

// exitInterrupted is what a shell makes of SIGINT.
const exitInterrupted = 128 + int(syscall.SIGINT)

type bisectFlags struct {
	objects, only, skip, check, library, format string
	blocksOf                                    string
	timeout                                     time.Duration
	repeat                                      int
	keep                                        bool
	on                                          setting.Switches
}

func (a *app) bisectCommand() *cobra.Command {
	f := bisectFlags{}
	cmd := &cobra.Command{
		Use:   "bisect [flags] -- PROG [ARG]...",
		Short: "Find the function whose patch changes what a program does",
		Long: "Run PROG without the library, with every function patched, and, if that makes a difference to its output or exit status, " +
			"again and again with fewer, until the function is found that makes it, or the smallest set. " +
			"Prints the function's bytes, its plan, its stub, the difference, and how to leave it out.\n\n" +
			"PROG runs some 20 to 30 times in this directory, without a terminal, with the same input; a run that hangs is killed and makes a difference.\n\n" +
			"A program that does not do the same twice needs a --check: a shell command that ends with status 0 if all is well, 125 if it cannot tell, else any other. " +
			"It finds stdout and stderr in the files $BISECT_STDOUT and $BISECT_STDERR, and the exit status in $BISECT_STATUS.\n\n" +
			"Exit status, as for git bisect run: 0 no difference, 1 there is one, 125 cannot tell; 2 wrong usage, 126 and 127 PROG cannot be executed or was not found, 130 interrupted.",
		Example: "  hotspots bisect -- ./app args\n  hotspots bisect --objects all -- python3 -c 'print(1)'\n" +
			"  hotspots bisect --check 'cmp -s out.ppm good.ppm' -- ./render out.ppm\n  hotspots bisect --check 'test $BISECT_STATUS -lt 128' --repeat 5 -- ./crashes-at-times",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("no program named: hotspots bisect [flags] -- PROG [ARG]..., see hotspots bisect --help")
			}
			return f.validate()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := a.bisect(&f, args)
			var exit *exitError
			if err == nil || errors.As(err, &exit) {
				return err
			}
			return &exitError{exitRunFailure, err}
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	acceptDirectCalls(cmd)
	flags.StringVar(&f.check, "check", "", "judge each run by this shell `COMMAND` instead of comparing output and exit status")
	flags.DurationVar(&f.timeout, "timeout", 0, "kill a run after this `TIME` (default 10 times that without the library and 10s)")
	flags.IntVar(&f.repeat, "repeat", 1, "run each selection up to `N` times, until it makes a difference")
	flags.BoolVar(&f.keep, "keep", false, "keep output, names and count table of every run, and say where")
	addFlags(cmd, func(s *setting.Setting) string { return s.Bisect }, &f.on, map[setting.ID]*string{
		setting.Objects: &f.objects, setting.Only: &f.only, setting.Skip: &f.skip, setting.Library: &f.library, setting.BlocksOf: &f.blocksOf,
	})
	choiceFlag(cmd, &f.format, "format", []string{"text", "json"}, "output `format`")
	return cmd
}

// validate checks the flags before anything runs.
func (f *bisectFlags) validate() error {
	if f.objects != "" {
		if _, err := symname.ParseObjects(f.objects); err != nil {
			return usage("--objects: %w", err)
		}
	}
	for _, names := range []struct {
		flag  string
		value *string
	}{{"--only", &f.only}, {"--skip", &f.skip}} {
		if *names.value == "" {
			continue
		}
		if _, err := symname.ParseNames(*names.value, textfile.Read); err != nil {
			return usage("%s: %w", names.flag, err)
		}
		path, err := absoluteList(*names.value)
		if err != nil {
			return err
		}
		*names.value = path
	}
	if f.timeout < 0 {
		return usage("--timeout %v: it is more than 0", f.timeout)
	}
	if f.repeat < 1 {
		return usage("--repeat %d: it is 1 or more", f.repeat)
	}
	return nil
}

// bisect looks for the functions and prints them.
func (a *app) bisect(f *bisectFlags, argv []string) error {
	p, err := launch.Resolve(argv, searchPath())
	if err != nil {
		return startError(err)
	}
	if p.Why != "" {
		return fmt.Errorf("nothing can be patched: %s", p.Why)
	}
	if p.Note != "" && !f.on[setting.FollowExec] {
		a.say("%s", p.Note)
	}
	library, err := launch.UserLibrary(f.library, a.library)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hotspots-bisect-")
	if err != nil {
		return err
	}
	if f.keep {
		defer a.say("the runs are kept in %s", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	bar := a.runsBar()
	r, err := bisect.Run(ctx, bisect.Config{
		Program: p, Command: argv, Library: library, Stdin: os.Stdin, Dir: dir, Keep: f.keep,
		Objects: f.objects, Only: f.only, Skip: f.skip, BlocksOf: f.blocksOf, On: f.on,
		Check: f.check, Timeout: f.timeout, Repeat: f.repeat,
		Say: func(line string) { a.say("%s", line) },
		Progress: func(done, left int, what string) {
			bar.ChangeMax(done + left + 1)
			bar.Describe(what)
			bar.Set(done)
		},
	})
	bar.Finish()
	switch {
	case ctx.Err() != nil && err != nil:
		return &exitError{exitInterrupted, err}
	case err != nil:
		return startError(err)
	}
	return a.printResult(r, f.format)
}

func (a *app) printResult(r *bisect.Result, format string) error {
	write := r.Text
	if format == "json" {
		write = r.JSON
	}
	if err := write(a.stdout); err != nil {
		return err
	}
	if r.Verdict != bisect.Same {
		return &exitError{status: exitFailure}
	}
	return nil
}

// runsBar shows how many runs have been and about how many follow, on a
// terminal only.
func (a *app) runsBar() *progressbar.ProgressBar {
	return progressbar.NewOptions(1, progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription("bisecting"),
		progressbar.OptionShowCount(), progressbar.OptionSetItsString("runs"), progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(term.IsTerminal(2)))
}
