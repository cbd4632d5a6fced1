package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/version"
)

// manCommand writes the manual; packagers call it. (cobra's own package for that is
// linked with a translator of Markdown, which takes a millisecond of every start.)
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a directory",
		Example: "  hotspots man /usr/local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			root := a.root()
			addCompletion(root)
			return writePages(root, args[0])
		},
	}
}

// writePages writes the pages of a command and of those below it.
func writePages(cmd *cobra.Command, dir string) error {
	cmd.InitDefaultHelpCmd()
	cmd.InitDefaultHelpFlag()
	file := filepath.Join(dir, pageName(cmd)+".1")
	if err := os.WriteFile(file, []byte(page(cmd)), 0o666); err != nil {
		return err
	}
	for _, c := range pagesBelow(cmd) {
		if err := writePages(c, dir); err != nil {
			return err
		}
	}
	return nil
}

func pagesBelow(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand()
	})
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page is the manual page of a command, for package man of roff (man(7)).
func page(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q \"1\" \"\" %q\n", strings.ToUpper(pageName(cmd)), "dynprof "+version.Version)
	section := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, ".SH %s\n%s\n", name, text)
		}
	}
	long := cmd.Long
	if long == "" {
		long = cmd.Short
	}
	section("NAME", roff(pageName(cmd))+" \\- "+roff(cmd.Short))
	section("SYNOPSIS", "\\fB"+roff(cmd.UseLine())+"\\fP")
	section("DESCRIPTION", roff(long))
	section("COMMANDS", commands(cmd))
	section("OPTIONS", options(cmd.NonInheritedFlags()))
	section("OPTIONS OF ALL COMMANDS", options(cmd.InheritedFlags()))
	if line := exitLine(cmd); line != "" {
		section("EXIT STATUS", roff(exitStatuses))
	}
	if !cmd.HasParent() {
		section("ENVIRONMENT", environment())
		section("FILES", files)
	}
	if cmd.Example != "" {
		section("EXAMPLE", ".nf\n"+roff(cmd.Example)+"\n.fi")
	}
	section("SEE ALSO", strings.Join(related(cmd), ", "))
	return b.String()
}

// commands are those below a command, each a tagged paragraph.
func commands(cmd *cobra.Command) string {
	var b strings.Builder
	for _, c := range pagesBelow(cmd) {
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\n%s\n", roff(c.Name()), roff(c.Short))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// environment are the variables that users set.
func environment() string {
	var b strings.Builder
	for i := range setting.All {
		if s := &setting.All[i]; s.Flag != "" {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\nas \\fBhotspots run \\-\\-%s\\fP\n", roff(s.Variable), roff(s.Flag))
		}
	}
	return b.String() + ".TP\n\\fBNO_COLOR\\fP\nif it is not empty, text has no color"
}

// files are the places where hotspots leaves something.
const files = ".TP\n\\fI$XDG_RUNTIME_DIR/dynprof\\fP, else \\fI/tmp/dynprof\\-UID\\fP\ncount tables: hotspots ls, hotspots prune\n" +
	".TP\n\\fI$XDG_CACHE_HOME/dynprof\\fP, else \\fI~/.cache/dynprof\\fP\nthe library, and plans of earlier starts: hotspots cache\n" +
	".TP\n\\fI/var/cache/dynprof/plans\\fP\nplans for all users: hotspots cache \\-\\-system"

// options are the flags, each a tagged paragraph.
func options(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\n%s\n", roff(name), roff(usage))
	})
	return strings.TrimSuffix(b.String(), "\n")
}

func related(cmd *cobra.Command) (pages []string) {
	if cmd.HasParent() {
		pages = append(pages, "\\fB"+roff(pageName(cmd.Parent()))+"\\fP(1)")
	}
	for _, c := range pagesBelow(cmd) {
		pages = append(pages, "\\fB"+roff(pageName(c))+"\\fP(1)")
	}
	return pages
}

// roff is text with what roff would read something into escaped: backslashes, dashes,
// and points and quotes at the begin of lines. Empty lines begin paragraphs.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		switch {
		case line == "":
			lines[i] = ".PP"
		case line[0] == '.', line[0] == '\'':
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
