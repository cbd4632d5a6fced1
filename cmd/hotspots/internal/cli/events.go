package cli

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
)

// event is a record of a function that crossed its threshold.
type event struct {
	Time    time.Time      `json:"time"`
	Object  string         `json:"object"`
	Address report.Address `json:"address"`
	Name    string         `json:"name"`
	Calls   uint64         `json:"calls"`
	Pid     uint32         `json:"pid"`
	Tid     uint32         `json:"tid"`
}

func (a *app) eventsCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "events [TABLE|PID]",
		Short:   "List the functions that crossed the call threshold, in order of time",
		Long:    "List the records that run --threshold N left: when, in which thread, and after how many calls a function became hot.",
		Example: "  hotspots run --threshold 10000 -- ./app\n  hotspots events\n  hotspots events 4711 --format json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tables, done, err := openAll(args, false)
			if err != nil {
				return err
			}
			defer done()
			return a.events(tables[0], format)
		},
	}
	formatFlag(cmd, &format)
	return cmd
}

func (a *app) events(t *table.Table, format string) error {
	records, err := t.Events()
	if err != nil {
		return err
	}
	s, err := t.Snapshot()
	if err != nil {
		return err
	}
	events := make([]event, len(records))
	for i, r := range records {
		events[i] = a.named(t, r)
	}
	switch format {
	case "json":
		return report.WriteJSON(a.stdout, struct {
			Schema    int    `json:"schema"`
			Program   string `json:"program"`
			Pid       uint32 `json:"pid"`
			Status    string `json:"status"`
			Threshold uint64 `json:"threshold"`
			Lost      uint64 `json:"lost"`
		}{report.Schema, symname.Clean(t.Program), t.Pid, t.Status().String(), t.Threshold, s.EventsLost}, "events", events)
	case "csv":
		return a.eventsCSV(events)
	}
	if s.EventsLost > 0 {
		a.say("%d more crossings found no room in the table", s.EventsLost)
	}
	return report.EventText(a.stdout, a.style, len(events), func(i int) []string {
		e := events[i]
		return []string{e.Time.Local().Format("2006-01-02 15:04:05.000000"), report.Thousands(e.Calls), fmt.Sprint(e.Pid), fmt.Sprint(e.Tid), e.Object, e.Name}
	})
}

func (a *app) named(t *table.Table, r table.Event) event {
	e := event{Time: r.Time.UTC(), Calls: r.Calls, Pid: r.Pid, Tid: r.Tid, Name: "?"}
	if r.Function >= 0 {
		f := &t.Functions[r.Function]
		object := t.Objects[f.Object].Path
		e.Object, e.Address = symname.Clean(object), report.Address(f.Address)
		e.Name = symname.Display(f.Name, object, f.Address, !a.noDemangle)
	}
	return e
}

func (a *app) eventsCSV(events []event) error {
	rows := [][]string{{"time", "object", "address", "name", "calls", "pid", "tid"}}
	for _, e := range events {
		rows = append(rows, []string{
			e.Time.Format(time.RFC3339Nano), e.Object, e.Address.String(), e.Name,
			strconv.FormatUint(e.Calls, 10), fmt.Sprint(e.Pid), fmt.Sprint(e.Tid),
		})
	}
	return csv.NewWriter(a.stdout).WriteAll(rows)
}
