package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/selftest"
)

func (a *app) selftestCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Prove that this installation counts exactly, in seconds",
		Long: "Count a small program that hotspots carries, with threads, a child, recursion and\n" +
			"calls by pointers, in each of the ways that hotspots run knows, and compare all\n" +
			"counts with how often its functions are called. Nothing else is needed; what it\n" +
			"writes is removed.\n\n" +
			"Exit status: 0 all counts are exact, 1 some are not, or nothing could be tested;\n2 wrong usage.",
		Example: "  hotspots selftest\n  hotspots selftest --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			tell := func(selftest.Result) {}
			if format == "text" {
				tell = a.tellVariant
			}
			all, err := selftest.Run(selftest.Config{Hotspots: self, Program: a.known, Tell: tell})
			if err != nil {
				return err
			}
			return a.selftested(all, format)
		},
	}
	choiceFlag(cmd, &format, "format", []string{"text", "json"}, "output `format`")
	return cmd
}

// tellVariant writes a line as soon as it is known.
func (a *app) tellVariant(r selftest.Result) {
	verdict, what := "exact", fmt.Sprintf("%s of %s", figures.Count(r.Calls, "call"), figures.Count(uint64(r.Functions), "function"))
	if r.Error != "" {
		verdict, what = "WRONG", r.Error
	}
	fmt.Fprintf(a.stdout, "%-6s %-26s %-17s %s\n", verdict, r.Variant, strings.Join(r.Flags, " "), what)
	a.stdout.Flush()
}

func (a *app) selftested(all []selftest.Result, format string) error {
	wrong := 0
	for _, r := range all {
		if r.Error != "" {
			wrong++
		}
	}
	if format == "json" {
		err := report.WriteJSON(a.stdout, struct {
			Schema int  `json:"schema"`
			Exact  bool `json:"exact"`
		}{report.Schema, wrong == 0}, "variants", all)
		if err != nil {
			return err
		}
	} else if wrong == 0 {
		fmt.Fprintf(a.stdout, "all %d ways to count are exact\n", len(all))
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d ways to count went wrong: see hotspots doctor for what may be in the way", wrong, len(all))
	}
	return nil
}
