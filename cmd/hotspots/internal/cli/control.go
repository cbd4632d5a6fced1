package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/attach"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/control"
	"github.com/dynprof/dynprof/internal/table/cputime"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/regions"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// askPatience bounds the wait for an agent, which has at most to wait for another
// who is pausing (2 s).
const askPatience = 10 * time.Second

func (a *app) pauseCommand() *cobra.Command {
	return a.askCommand("pause", layout.RequestPause, "Stop counting in a running program",
		"Stop counting the calls of a program that was started with hotspots run --control, is static, or was attached to, in all its processes, until hotspots resume. Its functions' entries stay patched; calls cost little more than without. "+
			"A program without an agent beside it, as one that was attached to, is stopped for some milliseconds.",
		"  hotspots run --control -o server.dynprof -- ./server &\n  hotspots pause server.dynprof\n  hotspots pause 4711")
}

func (a *app) resumeCommand() *cobra.Command {
	return a.askCommand("resume", layout.RequestResume, "Go on counting in a running program",
		"Go on counting the calls of a program after hotspots pause, or dynprof_pause() in the program.",
		"  hotspots resume 4711")
}

// askCommand is a command that an agent does, or, of a program that was attached to, this process.
func (a *app) askCommand(name string, what uint32, short, long, example string) *cobra.Command {
	return &cobra.Command{
		Use: name + " PID|TABLE", Short: short, Long: long, Example: example,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := locate(args[0])
			if err != nil {
				return err
			}
			left, err := control.Ask(path, what, askPatience)
			if errors.Is(err, control.ErrNoAgent) {
				left, err = a.askAttached(path, what, err)
			}
			if err == nil && left > 0 {
				a.say("%d functions of libraries that were loaded later could not be reached and are counted on", left)
			}
			return err
		},
	}
}

// askAttached has done what was asked of a program that was attached to, which needs no agent. Of
// another program it is refused.
func (a *app) askAttached(path string, what uint32, refused error) (left int, err error) {
	blob, err := a.blob()
	if err == nil {
		left, err = attach.SetPaused(path, what == layout.RequestPause, blob)
	}
	if errors.Is(err, attach.ErrNotAttached) {
		err = refused
	}
	return left, err
}

func (a *app) resetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reset TABLE|PID",
		Short: "Let the counts begin at 0 again",
		Long: "Let the counts of a program begin at 0 again, while it runs or after. All reports are from then on of the calls since; thresholds and metrics are not touched.\n" +
			"The program takes no part: its table gets a baseline, which readers subtract.",
		Example: "  hotspots reset 4711\n  hotspots reset app.dynprof && sleep 10 && hotspots report app.dynprof     the calls of ten seconds",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := locate(args[0])
			if err != nil {
				return err
			}
			return edit.Reset(path)
		},
	}
}

func (a *app) snapshotCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "snapshot TABLE|PID",
		Short: "Copy the count table as it is at this moment",
		Long: "Copy the count table of a program, while it runs or after, into a file that report, coverage and events read, and print its name.\n" +
			"The program takes no part. The file is there only when it is whole, and takes no more room than what is used of the table.",
		Example: "  hotspots snapshot 4711 -o before.dynprof\n  hotspots snapshot app.dynprof",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := locate(args[0])
			if err != nil {
				return err
			}
			if output == "" {
				output = snapshotName(path)
			}
			if err := mayReplace(output); err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(output), 0o777); err != nil {
				return err
			}
			if err := edit.Copy(path, output); err != nil {
				return err
			}
			a.copyTimes(path, output)
			_, err = fmt.Fprintln(a.stdout, symname.Clean(output))
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the copy to `FILE` (default: the table's name with the time, in the working directory)")
	return cmd
}

// copyTimes copies what is beside a table. Without it the copy is as good a table.
func (a *app) copyTimes(path, output string) {
	e, err := find.Stat(output)
	if err == nil {
		err = errors.Join(cputime.Copy(path, output, e.Nonce), heat.Copy(path, output, e.Nonce), regions.Copy(path, output, e.Nonce))
	}
	if err != nil {
		a.say("what is beside the table is not copied: %v", err)
	}
}

// snapshotName is the name of a copy made now.
func snapshotName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), tabledir.Ext) + "." + time.Now().Format("20060102T150405.000") + tabledir.Ext
}
