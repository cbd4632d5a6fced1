package cli

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/budget"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
)

// Exit statuses of diff, as of diff(1).
const (
	exitDifferent = 1 // or over budget
	exitTrouble   = 2
)

type diffFlags struct {
	showFlags
	failOver string
	budget   string
	exitCode bool
	binaries []string
}

func (a *app) diffCommand() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Show how the calls of two tables differ, or fail where they rise",
		Long: "Show, for each function, the calls in one count table, in another, and the difference: of two snapshots of a program what it called in between, of two runs what has changed.\n" +
			"Functions are the same if they have the same address in the same build of an object, the same name in different builds of it, or, without a name, the same code (docs/diff.md); executables are compared with each other, whatever their paths.\n\n" +
			"Text shows the functions that differ most; JSON and CSV all functions.\n\n" +
			"With --fail-over or --budget the exit status is 1 if a limit is broken, with a line for each that is. LIMIT is how much calls may rise, 10% or +1000 or both, 10%+1000, or how many there may be, 500. A budget file has lines NAME=LIMIT, of which the last counts that matches: * and ? in NAME are as of files, @total is all calls, @new each function that only AFTER has, and any is no limit.\n\n" +
			"Exit status: 0 if no limit is broken, 1 if one is (with --exit-code: if any calls differ), 2 if they could not be compared.",
		Example: "  hotspots snapshot 4711 -o a.dynprof; sleep 10; hotspots diff a.dynprof 4711     the calls of ten seconds\n" +
			"  hotspots diff old.dynprof new.dynprof --format csv\n" +
			"  hotspots diff old.dynprof new.dynprof --fail-over 10%               fail if any function is called more\n" +
			"  hotspots diff old.dynprof new.dynprof --budget calls.budget         limits by function\n" +
			"  hotspots diff old.dynprof new.dynprof --binary build-old/app        of a stripped program that was built anew",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(2)(cmd, args); err != nil {
				return usage("%w; see hotspots diff --help", err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.settle(cmd, false)
			status, err := a.diff(f, args)
			switch {
			case err != nil:
				return &exitError{exitTrouble, err}
			case status != 0:
				return &exitError{status, nil}
			}
			return nil
		},
	}
	f.add(cmd, report.DiffOrders)
	cmd.Flags().StringVar(&f.failOver, "fail-over", "", "fail if the calls of any function, or all, rise by more than `LIMIT`, such as 10%")
	cmd.Flags().StringVar(&f.budget, "budget", "", "fail if a limit of this `FILE` is broken")
	cmd.Flags().BoolVar(&f.exitCode, "exit-code", false, "exit with status 1 if any calls differ")
	cmd.Flags().StringArrayVar(&f.binaries, "binary", nil, "a program or library that was counted and lies in this `FILE` by now; may be given again")
	cmd.MarkFlagsMutuallyExclusive("exit-code", "fail-over")
	cmd.MarkFlagsMutuallyExclusive("exit-code", "budget")
	return cmd
}

func (a *app) diff(f diffFlags, args []string) (status int, err error) {
	filter, err := f.check()
	if err != nil {
		return 0, err
	}
	limits, err := f.limits()
	if err != nil {
		return 0, err
	}
	files, err := byBuildID(f.binaries)
	if err != nil {
		return 0, err
	}
	var both [2]*table.Table
	for i, arg := range args {
		path, err := locate(arg)
		if err != nil {
			return 0, err
		}
		if both[i], err = a.openTable(path); err != nil {
			return 0, err
		}
		defer both[i].Close()
	}
	d, err := report.NewDiff(both[0], both[1], files, report.Options{Mangled: a.noDemangle})
	if err != nil {
		return 0, err
	}
	for _, line := range d.Unread {
		a.say("%s; --binary names a file that it has been moved to", line)
	}
	if limits != nil {
		status, err = a.judge(limits, d)
	} else if f.exitCode && d.Differs() {
		status = exitDifferent
	}
	if f.filter != "" {
		d.Keep(filter)
	}
	d.Sort(f.sort)
	d.Top(f.top)
	if shown := a.show(f.format, d); shown != nil {
		return 0, shown
	}
	return status, err
}

// limits are those of the flags; nil if there are none.
func (f *diffFlags) limits() (*budget.Budget, error) {
	if f.failOver == "" && f.budget == "" {
		return nil, nil
	}
	b := &budget.Budget{}
	if f.failOver != "" {
		if err := b.All(f.failOver); err != nil {
			return nil, fmt.Errorf("--fail-over %w", err)
		}
	}
	if f.budget != "" {
		text, err := os.ReadFile(f.budget)
		if err != nil {
			return nil, err
		}
		if err := b.Read(f.budget, bytes.NewReader(text)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// judge says which limits are broken. That some cannot be judged is an error.
func (a *app) judge(b *budget.Budget, d *report.Diff) (status int, err error) {
	broken, unused := b.Judge(d)
	for _, line := range broken {
		a.say("over budget: %s", line)
		status = exitDifferent
	}
	switch {
	case len(unused) > 0:
		return 0, fmt.Errorf("%s: there is no such function in either table", strings.Join(unused, ", "))
	case len(d.Unread) > 0:
		return 0, fmt.Errorf("limits cannot be judged of functions that are not compared")
	}
	return status, nil
}

// byBuildID are the paths of files by their build IDs.
func byBuildID(paths []string) (map[string]string, error) {
	files := map[string]string{}
	for _, path := range paths {
		id, err := objcode.BuildIDOf(path)
		if err != nil {
			return nil, err
		}
		if len(id) == 0 {
			return nil, fmt.Errorf("%s has no build ID to know it by", path)
		}
		files[hex.EncodeToString(id)] = path
	}
	return files, nil
}
