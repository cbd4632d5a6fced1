package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

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
