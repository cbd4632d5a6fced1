package cli

import (
	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
)

func (a *app) heatCommand() *cobra.Command {
	var format string
	var show heat.Show
	cmd := &cobra.Command{
		Use:   "heat [TABLE]",
		Short: "Show which pages of memory were read, written and executed",
		Long: "Show how many pages of memory a program has touched, by file and kind of memory, and how many of these were\n" +
			"read, written and executed, against those that were resident at its end; with --pages which ones, with the slices of time in which they were\n" +
			"touched first and last; with --curve what was touched in each slice, and the working set.\n" +
			"The program has to be run with hotspots run --heat=pages. Without TABLE: the newest table.\n\n" +
			"A page is touched where an instruction of a function that runs as a copy has read or written a byte of it.\n" +
			"What is not seen is said: other functions, libraries that are not counted, the kernel. Forked children touch\n" +
			"the same pages.",
		Example: "  hotspots run --heat=pages -o app.dynprof -- ./app\n  hotspots heat app.dynprof\n  hotspots heat app.dynprof --pages\n  hotspots heat app.dynprof --curve --window 1000000\n  hotspots heat app.dynprof --format json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			tables, done, err := a.openAll(args, false)
			if err != nil {
				return err
			}
			defer done()
			m, err := heat.Of(tables[0], show)
			if err != nil {
				return err
			}
			return a.show(format, m)
		},
	}
	formatFlag(cmd, &format)
	cmd.Flags().BoolVar(&show.Pages, "pages", false, "show each range of pages with its first and last slice of time, as text; JSON and CSV always do")
	cmd.Flags().BoolVar(&show.Curve, "curve", false, "show each slice of time: what was touched in it, the working set, pages used so far, resident ones")
	cmd.Flags().Uint64Var(&show.Window, "window", 0, "the working set is what the last `N` instructions have touched (default: a twentieth of all)")
	return cmd
}
