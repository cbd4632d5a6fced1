package cli

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/system"
)

func (a *app) coverageCommand() *cobra.Command {
	var format, list string
	var run, all, traps, blocks bool
	cmd := &cobra.Command{
		Use:   "coverage [TABLE|PID]... | --system DIR...",
		Short: "Show which functions are counted, and why others are not",
		Long: "For each object: functions found, counted by tactic, not counted by reason, excluded by reason.\n" +
			"Functions that were not selected, and excluded addresses (no functions, or never to be patched), are outside the percentage. docs/coverage.md says what the words mean.\n\n" +
			"With --system: plans every executable and library below the directories, without running any, and says what would be counted.",
		Example: "  hotspots coverage\n  hotspots coverage 4711 --format json\n  hotspots coverage --list too-short\n  hotspots coverage --system /usr/bin /usr/lib/x86_64-linux-gnu",
		RunE: func(cmd *cobra.Command, args []string) error {
			if all {
				return a.systemCoverage(args, system.Options{Traps: traps, Blocks: blocks}, format, list)
			}
			if blocks {
				return usage("--blocks goes with --system")
			}
			if traps {
				return usage("--allow-traps goes with --system: a table shows what its run did, see hotspots run --allow-traps")
			}
			if words := report.Words(); list != "" && !slices.Contains(words, list) {
				return usage("--list %s: it is one of %s", list, strings.Join(words, ", "))
			}
			r, done, err := a.read(args, run, report.Options{})
			if err != nil {
				return err
			}
			defer done()
			if list != "" {
				return a.listReason(r, list, format)
			}
			switch objects := r.Coverage(); format {
			case "json":
				return r.CoverageJSON(a.stdout, objects)
			case "csv":
				return report.CoverageCSV(a.stdout, objects)
			default:
				return r.CoverageText(a.stdout, objects, a.style)
			}
		},
	}
	formatFlag(cmd, &format)
	cmd.Flags().StringVar(&list, "list", "", "list the functions with this `REASON` or tactic")
	cmd.Flags().BoolVar(&all, "system", false, "plan all ELF files below the directories named instead of reading a table")
	cmd.Flags().BoolVar(&traps, "allow-traps", false, "with --system: plan as hotspots run --allow-traps does")
	cmd.Flags().BoolVar(&blocks, "blocks", false, "with --system: which functions could run as copies with a counter in each basic block, too")
	cmd.Flags().BoolVar(&run, "run", false, "merge all tables of the run that the table belongs to")
	cmd.RegisterFlagCompletionFunc("list", cobra.FixedCompletions(report.Words(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) listReason(r *report.Report, word, format string) error {
	r.Keep(report.HasReason(word))
	r.Sort("name")
	return a.show(format, reasons{r})
}

// reasons is a report whose text says why each function is counted or not.
type reasons struct{ *report.Report }

func (r reasons) Text(w io.Writer, style report.Style) error { return r.ListText(w, style) }
