package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/loops"
)

func (a *app) loopsCommand() *cobra.Command {
	var format, function string
	var top int
	var histogram bool
	cmd := &cobra.Command{
		Use:   "loops [TABLE|PID]",
		Short: "Show the loops in which most instructions ran",
		Long: "Show the loops of a program with how often each went round, and was entered, and how many instructions ran in it,\n" +
			"those of loops in it as well. Where an indirect jump leads back, how often it was entered is not known.\n" +
			"The program has to be run with hotspots run --blocks. Without TABLE or PID: the newest table.\n\n" +
			"With hotspots run --trips: also how many of its executions, from where the loop is entered to where it is\n" +
			"left, have ended, the least and the most trips of these, and how many had 1, 2 and 3, 4 to 7, ... trips, as\n" +
			"a sparkline, or with --histogram in numbers. Trips are how often the loop's first block ran.",
		Example: "  hotspots run --blocks -o app.dynprof -- ./app\n  hotspots loops app.dynprof\n  hotspots loops app.dynprof --function main --format json\n" +
			"  hotspots run --trips -o app.dynprof -- ./app\n  hotspots loops app.dynprof --histogram --top 5",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if top < 0 {
				return usage("--top %d: it is 0 or more", top)
			}
			if histogram && format != "text" {
				return usage("--histogram is text; of --format %s the trips have all buckets", format)
			}
			if format == "text" && !cmd.Flags().Changed("top") {
				top = textTop
			}
			tables, done, err := a.openAll(args, false)
			if err != nil {
				return err
			}
			defer done()
			if histogram {
				if err := loops.CheckTrips(tables[0]); err != nil {
					return err
				}
			}
			list, err := loops.Of(tables[0], function, a.noDemangle)
			if err != nil {
				return err
			}
			if list.Top = top; histogram {
				return list.Histogram(a.stdout)
			}
			return a.show(format, list)
		},
	}
	choiceFlag(cmd, &format, "format", []string{"text", "json", "csv"}, "output `format`")
	cmd.Flags().StringVar(&function, "function", "", "only those of the function with this `NAME` or address, 0x and hex digits")
	cmd.Flags().BoolVar(&histogram, "histogram", false, "show how many executions had how many trips, a line for each power of two (hotspots run --trips)")
	cmd.Flags().IntVar(&top, "top", 0, fmt.Sprintf("show the first `N`; 0 shows all (default %d as text, else 0)", textTop))
	return cmd
}
