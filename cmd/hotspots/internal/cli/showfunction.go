package cli

import (
	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/show"
)

// How many instructions, and lines of each list, are shown as text.
const (
	showCode  = 40
	showLines = 12
)

func (a *app) showCommand() *cobra.Command {
	var format string
	var code, lines int
	cmd := &cobra.Command{
		Use:   "show NAME|ADDRESS [TABLE|PID]",
		Short: "Show all that is known of a function",
		Long: "Show all that is known of a function: its calls, by thread, and how they are\n" +
			"counted, or why not; loops, instructions, callers and callees, of a run with\n" +
			"--blocks; who refers to it in its file, and what it refers to: strings, functions,\n" +
			"symbols of libraries; its code, with the bytes marked that counting overwrites\n" +
			"(read from memory while the program runs). Where a program is stripped, strings\n" +
			"and neighbours help to guess what a function is.\n\n" +
			"NAME is a name as report shows it, or object+0xADDRESS; ADDRESS may be any in the\n" +
			"function, of the file, or of the program's memory, as a debugger shows it.\n" +
			"Without TABLE or PID: the newest table.",
		Example: "  hotspots show lua_type\n  hotspots show lua5.4+0x8870 app.dynprof\n  hotspots show 0x8870 4711 --code 0\n  hotspots show main app.dynprof --format json",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			if code < 0 || lines < 0 {
				return usage("--code and --lines are 0 or more")
			}
			tables, done, err := a.openAll(args[1:], false)
			if err != nil {
				return err
			}
			defer done()
			v, err := show.Find(tables[0], args[0], a.noDemangle)
			if err != nil {
				return err
			}
			if format == "json" {
				return v.JSON(a.stdout)
			}
			return v.Text(a.stdout, a.style, code, lines)
		},
	}
	choiceFlag(cmd, &format, "format", []string{"text", "json"}, "output `format`")
	cmd.Flags().IntVar(&code, "code", showCode, "as text, show the first `N` instructions; 0 shows all")
	cmd.Flags().IntVar(&lines, "lines", showLines, "as text, show the first `N` lines of each list; 0 shows all")
	return cmd
}
