package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/callgraph"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
)

type callsFlags struct {
	format, function string
	inclusive        bool
	top              int
	side             callgraph.Side // with function
}

func (a *app) callsCommand() *cobra.Command {
	var f callsFlags
	cmd := &cobra.Command{
		Use:   "calls [TABLE|PID]",
		Short: "Show which functions called which, and how often",
		Long: "Show the calls from function to function with how often each was made, exactly, after hotspots run --edges by a counter of\n" +
			"each call, after hotspots run --blocks from how often blocks have run: calls by name, and tail calls; with blocks also\n" +
			"those of libraries. What is left of a function's calls came from elsewhere: by pointers, or from what is not counted so.\n" +
			"With --function: who called it, and whom it called. Without TABLE or PID: the newest table.",
		Example: "  hotspots run --edges -o app.dynprof -- ./app\n  hotspots calls app.dynprof\n  hotspots calls app.dynprof --function main\n  hotspots calls app.dynprof --inclusive    after run --blocks --edges: instructions, with those of what is called\n" +
			"  hotspots calls app.dynprof --format dot --top 50 | dot -Tsvg >calls.svg\n" +
			"  hotspots calls app.dynprof --format folded | flamegraph.pl --countname calls >calls.svg    pairs of caller and callee",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.top < 0 {
				return usage("--top %d: it is 0 or more", f.top)
			}
			if picture := f.format == "text" || f.format == "dot"; picture && !cmd.Flags().Changed("top") {
				f.top = textTop
			}
			tables, done, err := a.openAll(args, false)
			if err != nil {
				return err
			}
			defer done()
			return a.calls(tables[0], f)
		},
	}
	choiceFlag(cmd, &f.format, "format", []string{"text", "json", "csv", "dot", "folded"}, "output `format`")
	cmd.Flags().StringVar(&f.function, "function", "", "show the callers and callees of the function with this `NAME` or address, 0x and hex digits")
	cmd.Flags().BoolVar(&f.inclusive, "inclusive", false, "show the instructions of each function with those of all that it called")
	cmd.MarkFlagsMutuallyExclusive("function", "inclusive")
	cmd.Flags().IntVar(&f.top, "top", 0, fmt.Sprintf("show the first `N`; 0 shows all (default %d as text and dot, else 0)", textTop))
	return cmd
}

func (a *app) calls(t *table.Table, f callsFlags) error {
	g, err := callgraph.Of(t, callgraph.FilesOf(t))
	if err != nil {
		return err
	}
	l := &callgraph.List{Graph: g, Program: symname.Clean(t.Program), Objects: t.Objects, Mangled: a.noDemangle, Top: f.top, Side: f.side}
	if f.inclusive {
		if f.format == "dot" || f.format == "folded" {
			return usage("--inclusive goes with --format text, json and csv")
		}
		if g.BySite != nil {
			return fmt.Errorf("%s counts calls by site, and no instructions: run the program with hotspots run --blocks --edges", t.Path())
		}
		return a.show(f.format, &callgraph.Costs{List: l})
	}
	var functions []int
	if f.function != "" {
		if functions = l.Find(f.function); functions == nil {
			return fmt.Errorf("%s: no function of that name was called, or has called: hotspots report --filter %s shows those that are like it", f.function, f.function)
		}
	}
	some := l
	if f.function != "" {
		some = l.Of(functions)
	}
	switch {
	case f.format == "dot":
		return some.Dot(a.stdout)
	case f.format == "folded":
		return some.Folded(a.stdout)
	case f.format == "csv" && f.function != "":
		return some.CSV(a.stdout)
	case f.format == "json" && f.function != "":
		return l.FunctionJSON(a.stdout, functions)
	case f.function == "":
		return a.show(f.format, l)
	}
	for i, n := range functions {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if err := l.FunctionText(a.stdout, n, a.style); err != nil {
			return err
		}
	}
	return nil
}
