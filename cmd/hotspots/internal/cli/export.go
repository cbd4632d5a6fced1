package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/export"
)

func (a *app) exportCommand() *cobra.Command {
	var format, output string
	cmd := &cobra.Command{
		Use:   "export [TABLE|PID]",
		Short: "Write a count table as a file of other tools",
		Long: "Write a count table as a file of other tools, with the calls of each function and, after hotspots run --blocks,\n" +
			"how often each instruction has run:\n" +
			"  callgrind  for callgrind_annotate and KCachegrind\n" +
			"  pprof      for go tool pprof, and what else reads its files (profile.proto, gzipped): sample types calls and instructions\n" +
			"Who called whom is in neither, so pprof's cum is its flat, and its graphs have no edges: see hotspots calls.\n" +
			"Without argument: the newest table.",
		Example: "  hotspots export app.dynprof -o callgrind.out.app && kcachegrind callgrind.out.app\n" +
			"  hotspots export app.dynprof >callgrind.out; callgrind_annotate callgrind.out\n" +
			"  hotspots export app.dynprof --format pprof -o app.pb.gz && go tool pprof -top app.pb.gz",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			tables, done, err := openAll(args, false)
			if err != nil {
				return err
			}
			defer done()
			to := export.Callgrind
			if format == "pprof" {
				to = export.Pprof
			}
			return a.write(output, func(w io.Writer) error { return to(w, tables[0], a.noDemangle) })
		},
	}
	choiceFlag(cmd, &format, "format", []string{"callgrind", "pprof"}, "of which `tool`")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE` instead of stdout")
	return cmd
}

// write calls to with the file named, or stdout if that is empty. A file that could not be
// written is removed.
func (a *app) write(name string, to func(io.Writer) error) (err error) {
	if name == "" {
		return to(a.stdout)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = to(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		os.Remove(name)
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
