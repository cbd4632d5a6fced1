package cli

import (
	"regexp"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
)

type diffFlags struct {
	format, sort, filter string
	top                  int
}

func (a *app) diffCommand() *cobra.Command {
	var f diffFlags
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
			if f.format == "text" && !cmd.Flags().Changed("top") {
				f.top = textTop
			}
			return a.diff(f, args)
		},
	}
	formatFlag(cmd, &f.format)
	choiceFlag(cmd, &f.sort, "sort", report.DiffOrders, "`order`")
	cmd.Flags().IntVar(&f.top, "top", 0, "show the first `N`; 0 shows all (default 30 as text, else 0)")
	cmd.Flags().StringVar(&f.filter, "filter", "", "show only functions whose name or alias matches the regular expression `REGEX`")
	return cmd
}

func (a *app) diff(f diffFlags, args []string) error {
	filter, err := regexp.Compile(f.filter)
	if err != nil {
		return usage("--filter: %w", err)
	}
	if f.top < 0 {
		return usage("--top %d: it is 0 or more", f.top)
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
	switch f.format {
	case "json":
		return d.JSON(a.stdout)
	case "csv":
		return d.CSV(a.stdout)
	}
	return d.Text(a.stdout, a.style)
}
