package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/annotate"
)

func (a *app) annotateCommand() *cobra.Command {
	var format string
	var source, loads bool
	cmd := &cobra.Command{
		Use:   "annotate FUNCTION [TABLE|PID]",
		Short: "Show how often each instruction of a function has run",
		Long: "Show the instructions of a function, block by block, with how often each block has run, and its share of all\n" +
			"that the function has executed. FUNCTION is a name as report shows it, or an address, 0x and hex digits.\n" +
			"Source lines are shown where the file has debug information (gcc -g), or a separate file of it is installed.\n" +
			"The program has to be run with hotspots run --blocks. Without TABLE or PID: the newest table.",
		Example: "  hotspots run --blocks -o app.dynprof -- ./app\n  hotspots annotate main app.dynprof\n  hotspots annotate 0x11a0 app.dynprof --format json",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			tables, done, err := a.openAll(args[1:], false)
			if err != nil {
				return err
			}
			defer done()
			list, err := annotate.Find(tables[0], args[0], a.noDemangle)
			if err != nil {
				return err
			}
			if source {
				annotate.AddSource(list, a.naming.Find, func(err error) { a.say("no source lines: %v", err) })
			}
			if format == "json" {
				return annotate.JSON(a.stdout, list)
			}
			for i, f := range list {
				if i > 0 {
					fmt.Fprintln(a.stdout)
				}
				f.ShowLoads = loads
				if err := f.Text(a.stdout, a.style.Red); err != nil {
					return err
				}
			}
			return nil
		},
	}
	choiceFlag(cmd, &format, "format", []string{"text", "json"}, "`how` it is written")
	cmd.Flags().BoolVar(&loads, "loads", false, "as text, with loads and stores of each block")
	cmd.Flags().BoolVar(&source, "source", true, "with source lines, where they are known")
	return cmd
}
