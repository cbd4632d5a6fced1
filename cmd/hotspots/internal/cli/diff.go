package cli

import (
	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
)

func (a *app) diffCommand() *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Show how the calls of two tables differ",
		Long: "Show, for each function, the calls in one count table, in another, and the difference: of two snapshots of a program what it called in between, of two runs what has changed.\n" +
			"Functions are the same if they have the same address in the same build of an object, or the same name in different builds of it; executables are compared with each other, whatever their paths.\n\n" +
			"Text shows the functions that differ most; JSON and CSV all functions.",
		Example: "  hotspots snapshot 4711 -o a.dynprof; sleep 10; hotspots diff a.dynprof 4711     the calls of ten seconds\n" +
			"  hotspots diff old.dynprof new.dynprof --format csv",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.settle(cmd, false)
			return a.diff(f, args)
		},
	}
	f.add(cmd, report.DiffOrders)
	return cmd
}

func (a *app) diff(f showFlags, args []string) error {
	filter, err := f.check()
	if err != nil {
		return err
	}
	var both [2]*table.Table
	for i, arg := range args {
		path, err := locate(arg)
		if err != nil {
			return err
		}
		if both[i], err = table.Open(path); err != nil {
			return err
		}
		defer both[i].Close()
	}
	d, err := report.NewDiff(both[0], both[1], report.Options{Mangled: a.noDemangle})
	if err != nil {
		return err
	}
	if f.filter != "" {
		d.Keep(filter)
	}
	d.Sort(f.sort)
	d.Top(f.top)
	return a.show(f.format, d)
}
