package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/debuginfod"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/names"
	"github.com/dynprof/dynprof/internal/table"
)

func (a *app) namesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "names",
		Short: "Learn names of functions, for builds that have none",
		Long: "All commands that show functions of tables look for names that are not in the programs themselves: in .gnu_debugdata, below /usr/lib/debug, by .gnu_debuglink, and, if DEBUGINFOD_URLS is set, on debuginfod servers. With --names FILE they take names from a file, too:\n\n" +
			"    0xADDRESS NAME          of the executable\n    OBJECT+0xADDRESS NAME   of a library, by its file name or build ID\n\n" +
			"and what hotspots names learn writes.",
		Example: "  hotspots names learn app-with-symbols -o app.names\n  hotspots report --names app.names app.dynprof\n  DEBUGINFOD_URLS=https://debuginfod.debian.net hotspots report",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usage("names: say learn; see %s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(a.namesLearnCommand())
	return cmd
}

func (a *app) namesLearnCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "learn BINARY...",
		Short: "Write the names of a program's functions, to name those of a stripped build by",
		Long: "Write, for each function of programs or libraries that have symbols, or a file of debug information, a hash of its code and its name. With --names, functions of another build that have no name get those of the same code (docs/diff.md tells what that is).\n" +
			"It has to be the same source, by the same compiler with the same options; functions that have changed stay without a name.",
		Example: "  hotspots names learn build/app build/libapp.so -o app.names\n  hotspots report --names app.names app.dynprof",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			find := a.finder(true)
			w := io.Writer(a.stdout)
			if output != "" {
				f, err := os.Create(output)
				if err != nil {
					return err
				}
				defer func() {
					if closed := f.Close(); err == nil {
						err = closed
					}
				}()
				w = f
			}
			for _, arg := range args {
				n, err := names.Learn(w, arg, find)
				if err != nil {
					return err
				}
				if output != "" {
					a.say("%s: %d names", arg, n)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `FILE` instead of stdout")
	return cmd
}

// finder looks for names of objects; on servers, too, if they may be asked. What the
// environment says wrong about these is no reason to show nothing.
func (a *app) finder(servers bool) *debugfile.Finder {
	find := &debugfile.Finder{Root: debugfile.System}
	if !servers {
		return find
	}
	d, err := debuginfod.FromEnvironment(os.Getenv)
	switch {
	case err != nil:
		a.say("nobody is asked for names: %v", err)
	case d != nil:
		d.Say = a.say
		find.Fetch = d.Fetch
	}
	return find
}

// namer names what is shown of tables.
func (a *app) namer() (*names.Namer, error) { return a.newNamer(true) }

// localNamer is one that asks no servers: that of a program that has just ended does not wait.
func (a *app) localNamer() (*names.Namer, error) { return a.newNamer(false) }

func (a *app) newNamer(servers bool) (*names.Namer, error) {
	n := &names.Namer{Find: a.finder(servers), Mangled: a.noDemangle, Say: a.say}
	for _, path := range a.names {
		f, err := names.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--names: %w", err)
		}
		n.Files = append(n.Files, f)
	}
	return n, nil
}

// openTable opens a table to be shown, and names its functions.
func (a *app) openTable(path string) (*table.Table, error) {
	if a.naming == nil {
		n, err := a.namer()
		if err != nil {
			return nil, err
		}
		a.naming = n
	}
	t, err := table.Open(path)
	if err == nil {
		a.naming.Name(t)
	}
	return t, err
}
