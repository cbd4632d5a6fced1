// Package cli is the command line of hotspots.
package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/job"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/names"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/narrow"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
)

// Exit statuses. Those of run are env(1)'s: 125 own failure, 126 not
// executable, 127 not found, else the program's.
const (
	exitFailure       = 1
	exitUsage         = 2
	exitRunFailure    = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// exitError ends hotspots with a status. A nil error says nothing more.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// app is what the commands share.
type app struct {
	stdout *bufio.Writer // data
	stderr io.Writer     // messages
	style  report.Style  // of text on stdout

	library  *launch.Carried // libdynprof.so; nil if this binary does not carry it
	known    []byte          // the program of selftest, likewise
	resident []byte          // the code to attach, likewise

	noDemangle  bool
	names       []string     // files of names
	naming      *names.Namer // by these; nil until it is asked for
	wide        bool
	systemPlans bool // hotspots cache --system
}

// Main runs the command line and returns the exit status. library is the
// libdynprof.so that run preloads, or nil, known the program of selftest, and resident the
// code that attach brings into a process.
func Main(args []string, library *launch.Carried, known, resident []byte) int {
	// With the signal caught, writing to a closed pipe is an error to look
	// at, and a program that run executes still has the default.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	color := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(os.Stdout.Fd()))
	style := report.Style{Color: color, Width: narrow.Width(int(os.Stdout.Fd()))}
	a := &app{stdout: bufio.NewWriterSize(os.Stdout, 64<<10), stderr: os.Stderr, style: style, library: library, known: known, resident: resident}
	return a.main(args)
}

func (a *app) main(args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	addCompletion(root) // cobra notes there where it writes to
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteC()
	if flushed := a.stdout.Flush(); err == nil {
		err = flushed
	}
	var exit *exitError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return 0
	case !errors.As(err, &exit):
		more := "" // cobra's own: an unknown command, or the number of arguments
		if cmd == root {
			more = misspelt(root, args)
		}
		exit = &exitError{exitUsage, fmt.Errorf("%w%s; see %s --help", err, more, cmd.CommandPath())}
	case exit.err == nil:
		return exit.status
	}
	a.say("%s", strings.ReplaceAll(exit.Error(), "\n", "; "))
	return exit.status
}

// say writes a message: one line, whatever the names in it hold.
func (a *app) say(format string, args ...any) {
	job.Say(a.stderr, format, args...)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "hotspots",
		Short: "Count every call of every function of an unmodified program",
		Long: "hotspots runs programs under libdynprof.so, which counts every call of their functions exactly, and shows the counts.\n\n" +
			"Exit status: " + exitStatuses + "; run ends as the program does, and bisect, doctor and selftest say what theirs mean.",
		Example:       "  hotspots run -- ./app args       count a program\n  hotspots report                  the functions called most, of the newest table\n  hotspots report --format json    all functions, for other programs",
		SilenceUsage:  true,
		SilenceErrors: true,

		DisableSuggestions: true, // an error is one line
	}
	root.PersistentFlags().BoolVar(&a.noDemangle, "no-demangle", false, "show C++, Rust, D and Swift names as they are in the file")
	root.PersistentFlags().StringArrayVar(&a.names, "names", nil, "name functions by this `FILE`, see hotspots names; may be given again")
	root.PersistentFlags().BoolVar(&a.wide, "wide", false, "show whole names where they are too long for the terminal, too")
	root.PersistentPreRun = func(*cobra.Command, []string) {
		if a.wide {
			a.style.Width = 0
		}
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w; see %s --help", flagError(err), cmd.CommandPath())
	})
	wrapHelp(root)
	root.AddCommand(a.runCommand(), a.attachCommand(), a.detachCommand(), a.reportCommand(), a.topCommand(), a.webCommand(), a.showCommand(), a.annotateCommand(), a.loopsCommand(), a.heatCommand(), a.regionsCommand(), a.adviseCommand(), a.callsCommand(), a.growthCommand(), a.exportCommand(), a.diffCommand(), a.namesCommand(), a.coverageCommand(), a.bisectCommand(), a.eventsCommand(),
		a.pauseCommand(), a.resumeCommand(), a.resetCommand(), a.snapshotCommand(), a.serveCommand(), a.agentCommand(), a.lsCommand(), a.pruneCommand(), a.compactCommand(), a.cacheCommand(), a.symbolsCommand(), a.gdbCommand(), a.selftestCommand(), a.doctorCommand(), a.versionCommand(), a.manCommand(), a.probeCommand())
	for _, cmd := range root.Commands() {
		wrapErrors(cmd)
	}
	return root
}

// wrapErrors tells what a command says from what cobra says of its arguments:
// status 1 from status 2.
func wrapErrors(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		wrapErrors(sub)
	}
	run := cmd.RunE
	if run == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		var exit *exitError
		if err == nil || errors.As(err, &exit) || errors.Is(err, syscall.EPIPE) {
			return err
		}
		return &exitError{exitFailure, err}
	}
}

var formats = []string{"text", "json", "csv"}

// formatFlag adds --format.
func formatFlag(cmd *cobra.Command, value *string) {
	choiceFlag(cmd, value, "format", formats, "output `format`")
}

// choiceFlag adds a flag whose value is one of the words; the first is the
// default.
func choiceFlag(cmd *cobra.Command, value *string, name string, words []string, what string) {
	cmd.Flags().StringVar(value, name, words[0], what+": "+strings.Join(words, ", "))
	cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(words, *value) {
			return usage("--%s %s: it is one of %s", name, *value, strings.Join(words, ", "))
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}
