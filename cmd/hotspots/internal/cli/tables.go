package cli

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/cputime"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/regions"
)

// tableEntry is a line of ls.
type tableEntry struct {
	Table     string    `json:"table"`
	Program   string    `json:"program"`
	Pid       uint32    `json:"pid"`
	Status    string    `json:"status"`
	Started   time.Time `json:"started"`
	Bytes     int64     `json:"bytes"` // on disk
	Complete  bool      `json:"complete"`
	Listen    string    `json:"listen"`              // address of the program's endpoint
	Paused    bool      `json:"paused"`              // it runs, and its calls are not counted at the moment
	Arguments string    `json:"arguments,omitempty"` // its command line, if that was kept (run --args)
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
			symname.Clean(e.Path), symname.Clean(e.Program), e.Pid, alive.Word(e.Status, e.Ended), e.Realtime.UTC(), e.Blocks, e.State == layout.StateLive, listens(e), e.Paused, symname.Clean(e.Arguments),
		}
	}
	switch format {
	case "json":
		return report.WriteJSON(a.stdout, struct {
			Schema int `json:"schema"`
		}{report.Schema}, "tables", lines)
	case "csv":
		rows := [][]string{{"table", "program", "pid", "status", "started", "bytes", "complete", "listen", "paused", "arguments"}}
		for _, l := range lines {
			rows = append(rows, []string{l.Table, l.Program, fmt.Sprint(l.Pid), l.Status, l.Started.Format(time.RFC3339Nano), fmt.Sprint(l.Bytes), fmt.Sprint(l.Complete), l.Listen, fmt.Sprint(l.Paused), l.Arguments})
		}
		return csv.NewWriter(a.stdout).WriteAll(rows)
	}
	return a.lsText(lines)
}

// lsText writes a line for each table. Where these are too long for the terminal, they have
// the program's name without its directory, and the time without a date that is today's or
// seconds; the table's path, which is there to be copied, is whole.
func (a *app) lsText(lines []tableEntry) error {
	for _, short := range []bool{false, true} {
		var b strings.Builder
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		heading, listening := "PID\tSTATUS\tSTARTED\tKIB\tLISTEN\tPROGRAM\tTABLE", !short
		for _, l := range lines {
			listening = listening || l.Listen != ""
		}
		if !listening {
			heading = strings.Replace(heading, "LISTEN\t", "", 1)
		}
		fmt.Fprintln(w, heading)
		for _, l := range lines {
			started, program, status := l.Started.Local().Format(time.DateTime), l.Program, l.Status
			if short {
				started, program = briefly(l.Started.Local(), time.Now()), filepath.Base(program)
			}
			if l.Arguments != "" {
				program = l.Arguments
			}
			if l.Paused {
				status = "paused"
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%d\t", l.Pid, status, started, l.Bytes/1024)
			if listening {
				fmt.Fprintf(w, "%s\t", cmp.Or(l.Listen, "-"))
			}
			fmt.Fprintf(w, "%s\t%s\n", program, l.Table)
		}
		w.Flush()
		if short || a.style.Width == 0 || widest(b.String()) <= a.style.Width {
			a.stdout.WriteString(b.String())
			break
		}
	}
	return nil
}

// briefly is a time as ls(1) shows it: one of today by the clock.
func briefly(t, now time.Time) string {
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format(time.TimeOnly)
	case t.Year() == now.Year():
		return t.Format("Jan _2 15:04")
	}
	return t.Format(time.DateOnly)
}

// widest is how many columns the longest line has.
func widest(text string) (most int) {
	for line := range strings.SplitSeq(text, "\n") {
		most = max(most, utf8.RuneCountInString(line))
	}
	return most
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
			heat.Remove(e.Path)
			regions.Remove(e.Path)
		}
		bytes += e.Blocks
		fmt.Fprintln(a.stdout, symname.Clean(e.Path))
	}
	did := "removed"
	if dryRun {
		did = "would remove"
	}
	a.say("%s %s, %d KiB", did, figures.Count(uint64(len(gone)), "table"), bytes/1024)
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
