package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/growth"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

type growthFlags struct {
	showFlags
	sizes               []string
	value, output, keep string
	plots               int
}

// place is what stands for the size in the arguments of a program.
const place = "{}"

// How many functions are drawn, if nobody says.
const (
	svgTop    = 6
	plotsUsed = 3
)

func (a *app) growthCommand() *cobra.Command {
	var f growthFlags
	cmd := &cobra.Command{
		Use:   "growth --sizes N,N,N... {TABLE... | -- PROG [ARG|{}]...}",
		Short: "Show how the calls of functions grow with the size of the input",
		Long: "Show how the calls of each function grow with the size of the program's input,\n" +
			"those first that grow faster than it: from the tables of runs with inputs of these\n" +
			"sizes, or by running PROG once for each, with the size in place of {} in its\n" +
			"arguments, as hotspots run does with the settings of DYNPROF_* variables; what it\n" +
			"writes to stdout is dropped, and its stdin is empty.\n\n" +
			"GROWTH is the model that fits best of 1, log n, n, n log n, n^2, n^3, each with an\n" +
			"offset and a factor, by least squares and Akaike's criterion; a ? says that another\n" +
			"does about as well: more sizes, or more distant ones, help. EXPONENT is that of a\n" +
			"power law, the slope between logarithms, with its standard error. At least 3 sizes\n" +
			"are needed; each ten times the last is good.",
		Example: "  hotspots growth --sizes 1e3,1e4,1e5 -- ./app --items {}\n" +
			"  hotspots growth --sizes 1e3,1e4,1e5 -- sqlite3 :memory: '.read test-{}.sql'\n" +
			"  hotspots growth small.dynprof medium.dynprof large.dynprof --size 100,1000,10000\n" +
			"  hotspots growth --sizes 1e3,1e4,1e5 --format svg -o growth.svg -- ./app {}",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("top") {
				f.top = map[string]int{"text": textTop, "svg": svgTop}[f.format]
			}
			program, isProgram := args, cmd.ArgsLenAtDash() == 0
			if !isProgram {
				program = nil
			}
			if cmd.ArgsLenAtDash() > 0 {
				return usage("there are tables and a program: name one or the other")
			}
			return a.growth(&f, args, program)
		},
	}
	flags := cmd.Flags()
	choiceFlag(cmd, &f.format, "format", []string{"text", "json", "svg"}, "output `format`")
	choiceFlag(cmd, &f.value, "value", []string{"calls", "instructions"}, "`what` is counted; instructions need hotspots run --blocks")
	flags.StringSliceVar(&f.sizes, "sizes", nil, "the `SIZES` of the inputs, of each table in turn; --size is the same")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "size" {
			name = "sizes"
		}
		return pflag.NormalizedName(name)
	})
	flags.IntVar(&f.top, "top", 0, fmt.Sprintf("show the first `N`; 0 shows all (default %d as text, %d as svg, else 0)", textTop, svgTop))
	flags.StringVar(&f.filter, "filter", "", "show only functions whose name or alias matches the regular expression `REGEX`")
	flags.IntVar(&f.plots, "plots", plotsUsed, "as text, draw the first `N`")
	flags.StringVar(&f.keep, "keep", "", "keep the tables of the program's runs in this `DIR`")
	flags.StringVarP(&f.output, "output", "o", "", "write to `FILE` instead of stdout")
	return cmd
}

func (a *app) growth(f *growthFlags, args, program []string) error {
	filter, err := f.check()
	if err != nil {
		return err
	}
	sizes, err := parseSizes(f.sizes)
	switch {
	case err != nil:
		return err
	case f.plots < 0:
		return usage("--plots %d: it is 0 or more", f.plots)
	case program == nil && len(args) == 0:
		return usage("nothing named to look at: hotspots growth --sizes N,N,N TABLE... or hotspots growth --sizes N,N,N -- PROG {}")
	case program == nil && len(args) != len(sizes):
		return usage("there are %d tables and %d sizes: --sizes says the size of each table's input", len(args), len(sizes))
	case program == nil && f.keep != "":
		return usage("--keep is for runs of a program: hotspots growth --sizes N,N,N -- PROG {}")
	}
	if program != nil {
		paths, done, err := a.runSizes(f, sizes, program)
		if err != nil {
			return err
		}
		defer done()
		args = paths
	}
	paths, err := tablePaths(args)
	if err == nil {
		err = notOver(f.output, paths)
	}
	if err != nil {
		return err
	}
	tables, done, err := a.openAll(paths, false)
	if err != nil {
		return err
	}
	defer done()
	if len(tables) != len(sizes) {
		return usage("a table is named twice")
	}
	return a.showGrowth(f, sizes, tables, growth.Options{Instructions: f.value == "instructions", Mangled: a.noDemangle, Keep: report.Matching(filter)})
}

func (a *app) showGrowth(f *growthFlags, sizes []float64, tables []*table.Table, opt growth.Options) error {
	if f.filter == "" {
		opt.Keep = nil
	}
	runs := make([]growth.Run, len(tables))
	for i, t := range tables {
		runs[i] = growth.Run{Size: sizes[i], Table: t}
	}
	g, err := growth.New(runs, opt)
	if err != nil {
		return err
	}
	g.Top = f.top
	return a.write(f.output, func(w io.Writer) error {
		switch f.format {
		case "json":
			return g.JSON(w)
		case "svg":
			return g.SVG(w)
		}
		style := a.style
		if f.output != "" {
			style = report.Style{}
		}
		return g.Text(w, style, f.plots)
	})
}

// parseSizes reads numbers like 1000 and 1e3.
func parseSizes(words []string) ([]float64, error) {
	var sizes []float64
	for _, word := range words {
		n, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		const largest = 1e15
		if err != nil || !(n >= 1 && n <= largest) {
			return nil, usage("--sizes %s: a size is a number from 1 to 1e15, such as 1000 or 1e3", word)
		}
		sizes = append(sizes, n)
	}
	different := slices.Compact(slices.Sorted(slices.Values(sizes)))
	if len(different) < growth.Least {
		return nil, usage("--sizes has %d different sizes: growth needs %d, such as --sizes 1e3,1e4,1e5", len(different), growth.Least)
	}
	return sizes, nil
}

// runSizes runs the program once for each size, by hotspots run, and returns the tables.
func (a *app) runSizes(f *growthFlags, sizes []float64, program []string) (paths []string, done func(), err error) {
	if len(program) == 0 {
		return nil, nil, usage("no program named behind --: hotspots growth --sizes N,N,N -- PROG {}")
	}
	if !slices.ContainsFunc(program, func(arg string) bool { return strings.Contains(arg, place) }) {
		return nil, nil, usage("%s has no %s among its arguments: it stands for the size of the input", program[0], place)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	dir, done := f.keep, func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "hotspots-growth"); err != nil {
			return nil, nil, err
		}
		done = func() { os.RemoveAll(dir) }
	} else if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, nil, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for i, n := range sizes {
		size := strconv.FormatFloat(n, 'f', -1, 64)
		path := filepath.Join(dir, size+tabledir.Ext)
		if slices.Contains(paths, path) {
			path = filepath.Join(dir, fmt.Sprintf("%s.%d%s", size, i, tabledir.Ext))
		}
		args := []string{"run", "--strict", "--summary=0", "-o", strings.ReplaceAll(path, "%", "%%")}
		if f.value == "instructions" {
			args = append(args, "--blocks")
		}
		args = append(args, "--")
		for _, arg := range program {
			args = append(args, strings.ReplaceAll(arg, place, size))
		}
		if term.IsTerminal(int(os.Stderr.Fd())) { // it may take long
			a.say("running with size %s, %d of %d", size, i+1, len(sizes))
		}
		if err := a.runSize(ctx, self, args, size); err != nil {
			done()
			return nil, nil, err
		}
		paths = append(paths, path)
	}
	return paths, done, nil
}

// runSize runs the program with one size.
func (a *app) runSize(ctx context.Context, self string, args []string, size string) error {
	c := exec.CommandContext(ctx, self, args...)
	c.Stderr = a.stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // which hotspots run passes on
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New("interrupted")}
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return err
	case exit.ExitCode() == exitRunFailure || exit.ExitCode() == exitNotExecutable || exit.ExitCode() == exitNotFound:
		return &exitError{status: exit.ExitCode()} // hotspots run has said why
	case exit.ExitCode() > 128 || exit.ExitCode() < 0:
		return fmt.Errorf("the program was killed with size %s (status %d): it has to end by itself", size, exit.ExitCode())
	}
	a.say("with size %s the program exited with status %d; its calls are counted all the same", size, exit.ExitCode())
	return nil
}
