package cli

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/cputime"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// tableEntry is a line of ls.
type tableEntry struct {
	Table    string    `json:"table"`
	Program  string    `json:"program"`
	Pid      uint32    `json:"pid"`
	Status   string    `json:"status"`
	Started  time.Time `json:"started"`
	Bytes    int64     `json:"bytes"` // on disk
	Complete bool      `json:"complete"`
	Listen   string    `json:"listen"` // address of the program's endpoint
}

func (a *app) lsCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "ls [DIR]...",
		Short:   "List count tables, the newest first",
		Long:    "List the count tables in the default directories of this user, or in those named.",
		Example: "  hotspots ls\n  hotspots ls /var/tmp/tables --format json",
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := list(args)
			if err != nil {
				return err
			}
			return a.ls(all, format)
		},
	}
	formatFlag(cmd, &format)
	return cmd
}

func list(dirs []string) ([]*find.Entry, error) {
	for _, dir := range dirs {
		if _, err := os.ReadDir(dir); err != nil {
			return nil, err
		}
	}
	if len(dirs) == 0 {
		dirs = searchDirs(os.Getuid())
	}
	return find.List(dirs...)
}

func (a *app) ls(all []*find.Entry, format string) error {
	lines := make([]tableEntry, len(all))
	for i, e := range all {
		lines[i] = tableEntry{
			symname.Clean(e.Path), symname.Clean(e.Program), e.Pid, e.Status.String(), e.Realtime.UTC(), e.Blocks, e.State == layout.StateLive, listens(e),
		}
	}
	switch format {
	case "json":
		return report.WriteJSON(a.stdout, struct {
			Schema int `json:"schema"`
		}{report.Schema}, "tables", lines)
	case "csv":
		rows := [][]string{{"table", "program", "pid", "status", "started", "bytes", "complete", "listen"}}
		for _, l := range lines {
			rows = append(rows, []string{l.Table, l.Program, fmt.Sprint(l.Pid), l.Status, l.Started.Format(time.RFC3339Nano), fmt.Sprint(l.Bytes), fmt.Sprint(l.Complete), l.Listen})
		}
		return csv.NewWriter(a.stdout).WriteAll(rows)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PID\tSTATUS\tSTARTED\tKIB\tLISTEN\tPROGRAM\tTABLE")
	for _, l := range lines {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\t%s\n", l.Pid, l.Status, l.Started.Local().Format(time.DateTime), l.Bytes/1024, cmp.Or(l.Listen, "-"), l.Program, l.Table)
	}
	return w.Flush()
}

// listens is the address of a running program's endpoint.
func listens(e *find.Entry) string {
	if e.Status != alive.Running {
		return ""
	}
	return symname.Clean(e.Listen)
}

func (a *app) pruneCommand() *cobra.Command {
	var older time.Duration
	var keep int
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "prune [DIR]...",
		Short: "Remove old tables of programs that have ended",
		Long: "Remove count tables of ended programs that nobody has written to for a while, in the default directories of this user or in those named.\n" +
			"A table that any process has open or mapped is kept. XDG_RUNTIME_DIR is memory: old tables there take it up.",
		Example: "  hotspots prune                    those older than a day\n  hotspots prune --older-than 0s    all of ended programs\n  hotspots prune --keep 10 --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if keep < 0 || older < 0 {
				return usage("--keep and --older-than are 0 or more")
			}
			all, err := list(args)
			if err != nil {
				return err
			}
			return a.prune(prunable(all, keep, time.Now().Add(-older)), dryRun)
		},
	}
	cmd.Flags().DurationVar(&older, "older-than", 24*time.Hour, "remove only those unchanged for this `time` (90m, 48h)")
	cmd.Flags().IntVar(&keep, "keep", 0, "keep the newest `N` in any case")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would be removed")
	return cmd
}

// prunable leaves those that may go. all is newest first.
func prunable(all []*find.Entry, keep int, before time.Time) []*find.Entry {
	return slices.DeleteFunc(slices.Clone(all[min(keep, len(all)):]), func(e *find.Entry) bool {
		return e.Status == alive.Running || e.Held || e.Modified.After(before) || e.Ended.Time.After(before)
	})
}

func (a *app) prune(gone []*find.Entry, dryRun bool) error {
	var bytes int64
	for _, e := range gone {
		if !dryRun {
			if err := os.Remove(e.Path); err != nil {
				return err
			}
			cputime.Remove(e.Path)
		}
		bytes += e.Blocks
		fmt.Fprintln(a.stdout, symname.Clean(e.Path))
	}
	did := "removed"
	if dryRun {
		did = "would remove"
	}
	a.say("%s %d tables, %d KiB", did, len(gone), bytes/1024)
	return nil
}

func (a *app) compactCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compact TABLE...",
		Short: "Take the room for more out of tables of programs that have ended",
		Long: "Write count tables anew, without the room that a running program may need: a table is a sparse file of up to 8 GiB, which cp and tar may fill with zeros. hotspots run does it at the end, and hotspots snapshot with its copy.\n" +
			"A table that any process has open or mapped is left as it is, and that is an error.",
		Example: "  LD_PRELOAD=libdynprof.so DYNPROF_OUTPUT=app.dynprof ./app && hotspots compact app.dynprof",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all error
			for _, arg := range args {
				path, err := locate(arg)
				if err == nil {
					err = edit.Compact(path)
				}
				all = errors.Join(all, err)
			}
			return all
		},
	}
}
