package cli

import (
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
)

// textTop is how many functions are shown as text by default.
const textTop = 30

// showFlags are those of commands that list functions.
type showFlags struct {
	format, sort, filter string
	top                  int
	sorted               bool // the user says how
}

// add adds the flags; orders are those of --sort, more are formats besides the usual ones.
func (f *showFlags) add(cmd *cobra.Command, orders []string, more ...string) {
	choiceFlag(cmd, &f.format, "format", slices.Concat(formats, more), "output `format`")
	choiceFlag(cmd, &f.sort, "sort", orders, "`order`")
	cmd.Flags().IntVar(&f.top, "top", 0, fmt.Sprintf("show the first `N`; 0 shows all (default %d as text, else 0)", textTop))
	cmd.Flags().StringVar(&f.filter, "filter", "", "show only functions whose name or alias matches the regular expression `REGEX`")
}

// settle gives --top its default; few says that there are not many lines.
func (f *showFlags) settle(cmd *cobra.Command, few bool) {
	f.sorted = cmd.Flags().Changed("sort")
	if f.format == "text" && !few && !cmd.Flags().Changed("top") {
		f.top = textTop
	}
}

// check returns --filter; the expression of none is empty.
func (f *showFlags) check() (*regexp.Regexp, error) {
	filter, err := regexp.Compile(f.filter)
	if err != nil {
		return nil, usage("--filter: %w", err)
	}
	if f.top < 0 {
		return nil, usage("--top %d: it is 0 or more", f.top)
	}
	return filter, nil
}

// show writes what is listed.
func (a *app) show(format string, list interface {
	JSON(w io.Writer) error
	CSV(w io.Writer) error
	Text(w io.Writer, style report.Style) error
}) error {
	switch format {
	case "json":
		return list.JSON(a.stdout)
	case "csv":
		return list.CSV(a.stdout)
	}
	return list.Text(a.stdout, a.style)
}
