package cli

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/dynprof/dynprof/internal/version"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  hotspots version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			library := "not embedded"
			if b := a.library; b != nil {
				library = fmt.Sprintf("embedded, %d bytes, SHA-256 %s", b.Size(), b.Sum)
			}
			_, err := fmt.Fprintf(a.stdout, "hotspots %s (%s, %s/%s)\nlibrary: %s\n", version.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, library)
			return err
		},
	}
}

// manCommand writes the manual; packagers call it.
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
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Title: "HOTSPOTS", Section: "1", Source: "dynprof " + version.Version}, args[0])
		},
	}
}
