package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is how wide help is: terminals have 80 columns.
const helpWidth = 80

// wrapHelp has the help of all commands wrapped. The templates are cobra's but for that.
func wrapHelp(root *cobra.Command) {
	cobra.AddTemplateFunc("wrapped", wrapText)
	cobra.AddTemplateFunc("exitLine", exitLine)
	cobra.AddTemplateFunc("wrappedFlags", func(f *pflag.FlagSet) string {
		return strings.TrimRight(f.FlagUsagesWrapped(helpWidth), "\n")
	})
	root.SetHelpTemplate(strings.ReplaceAll(root.HelpTemplate(), "trimTrailingWhitespaces", "trimTrailingWhitespaces | wrapped"))
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages | trimTrailingWhitespaces", "wrappedFlags .LocalFlags",
		".InheritedFlags.FlagUsages | trimTrailingWhitespaces", "wrappedFlags .InheritedFlags",
		"{{if .HasHelpSubCommands}}", "{{exitLine .}}{{if .HasHelpSubCommands}}",
	).Replace(root.UsageTemplate()))
}

// exitStatuses are those of most commands; a command that has others says so in its Long.
const exitStatuses = "0 all is well, 1 it failed, 2 wrong usage"

// exitLine says which exit statuses a command has, if its Long does not.
func exitLine(cmd *cobra.Command) string {
	if strings.Contains(strings.ToLower(cmd.Long), "exit status") || !cmd.Runnable() {
		return ""
	}
	return "\n\nExit status:\n  " + exitStatuses
}

// wrapText breaks lines that are too long, at blanks. What is indented stays as it is.
func wrapText(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		for len(line) > helpWidth && line[0] != ' ' {
			at := strings.LastIndexByte(line[:helpWidth+1], ' ')
			if at < 0 {
				break
			}
			b.WriteString(line[:at] + "\n")
			line = line[at+1:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// flagError words what pflag says of a flag's value for people who do not write Go.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	f := invalid.GetFlag()
	what := ""
	switch f.Value.Type() {
	case "int", "uint", "uint32", "uint64":
		what = "a whole number"
	case "float64":
		what = "a number"
	case "bool":
		what = "true or false, or nothing"
	case "duration":
		what = "a time, like 90s, 5m or 1h30m"
	default:
		return fmt.Errorf("--%s %s: %w", f.Name, invalid.GetValue(), errors.Unwrap(invalid))
	}
	return fmt.Errorf("--%s %s: it is %s", f.Name, invalid.GetValue(), what)
}

// misspelt is the part of an error that says which command may be meant.
func misspelt(root *cobra.Command, args []string) string {
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		root.SuggestionsMinimumDistance = 2
		if all := root.SuggestionsFor(arg); len(all) > 0 {
			return "; did you mean " + strings.Join(all, " or ") + "?"
		}
		break
	}
	return ""
}

// addCompletion adds cobra's scripts for shells, with what to do with them.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil || cmd == root {
		return
	}
	examples := map[string]string{
		"bash":       "hotspots completion bash >~/.local/share/bash-completion/completions/hotspots",
		"zsh":        "hotspots completion zsh >~/.zfunc/_hotspots    # fpath has ~/.zfunc, in front of compinit",
		"fish":       "hotspots completion fish >~/.config/fish/completions/hotspots.fish",
		"powershell": "hotspots completion powershell | Out-String | Invoke-Expression",
	}
	cmd.Short = "Write what has a shell complete commands and flags"
	cmd.Long = "Write a script that has a shell complete hotspots' commands, flags and their words. The packages have those of bash, zsh and fish."
	cmd.Example = "  . <(hotspots completion bash)    in this shell, until it ends"
	cmd.Args = nil
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usage("completion: say bash, zsh, fish or powershell; see %s --help", cmd.CommandPath())
	}
	for _, c := range cmd.Commands() {
		c.Short = "Write the script of " + c.Name()
		c.Long = c.Short + ": a new shell completes hotspots' commands, flags and their words."
		c.Example = "  " + examples[c.Name()]
	}
}
