package cli

import (
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
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
	Outcome string         `json:"outcome"`
}

func (a *app) eventsCommand() *cobra.Command {
	var format string
	var follow bool
	cmd := &cobra.Command{
		Use:     "events [TABLE|PID]",
		Short:   "List the functions that crossed their call threshold, by time",
		Long:    "List the records that run --threshold N left: when, in which thread, and after how many calls a function became hot, and what a translator did with it.",
		Example: "  hotspots run --threshold 10000 -- ./app\n  hotspots events\n  hotspots events 4711 --format json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tables, done, err := a.openAll(args, false)
			if err != nil {
				return err
			}
			defer done()
			if follow {
				if format != "text" {
					return errors.New("--follow shows text only")
				}
				return a.follow(tables[0])
			}
			return a.events(tables[0], format)
		},
	}
	formatFlag(cmd, &format)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on, until the program ends")
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
			Dropped   uint64 `json:"dropped"`
			Failures  uint64 `json:"failures"`
		}{report.Schema, symname.Clean(t.Program), t.Pid, alive.Of(t.File).String(), t.Threshold, s.EventsLost, s.EventsDropped, s.TranslatorFailures}, "events", events)
	case "csv":
		return a.eventsCSV(events)
	}
	if s.EventsLost > 0 {
		a.say("%d more crossings found no room in the table", s.EventsLost)
	}
	if s.EventsDropped > 0 {
		a.say("the translator was not told of %d events: its ring was full", s.EventsDropped)
	}
	if s.TranslatorFailures > 0 {
		a.say("the translator failed %d times: it crashed, was gone, gave what was refused, or did not start", s.TranslatorFailures)
	}
	return report.EventText(a.stdout, a.style, len(events), func(i int) []string {
		e := events[i]
		return e.columns()
	})
}

const eventTime = "2006-01-02 15:04:05.000000"

func (e *event) columns() []string {
	return []string{e.Time.Local().Format(eventTime), figures.Thousands(e.Calls), fmt.Sprint(e.Pid), fmt.Sprint(e.Tid), e.Outcome, e.Object, e.Name}
}

// follow shows each event when it is there, and again when its outcome has
// changed, until the program has ended.
func (a *app) follow(t *table.Table) error {
	const tick = 200 * time.Millisecond
	shown := map[uint64]table.Outcome{}
	for {
		status := alive.Of(t.File) // before the events: none of them is missed
		records, err := t.Events()
		if err != nil {
			return err
		}
		for _, r := range records {
			if old, ok := shown[r.Slot]; ok && old == r.Outcome {
				continue
			}
			shown[r.Slot] = r.Outcome
			e := a.named(t, r)
			if _, err := fmt.Fprintln(a.stdout, strings.Join(e.columns(), "  ")); err != nil {
				return err
			}
		}
		if status != alive.Running {
			return nil
		}
		time.Sleep(tick)
	}
}

func (a *app) named(t *table.Table, r table.Event) event {
	e := event{Time: r.Time.UTC(), Calls: r.Calls, Pid: r.Pid, Tid: r.Tid, Name: "?", Outcome: r.Outcome.String()}
	if r.Function >= 0 {
		f := &t.Functions[r.Function]
		object := t.Objects[f.Object].Path
		e.Object, e.Address = symname.Clean(object), report.Address(f.Address)
		e.Name = symname.Display(f.Name, object, f.Address, !a.noDemangle)
	}
	return e
}

func (a *app) eventsCSV(events []event) error {
	rows := [][]string{{"time", "object", "address", "name", "calls", "pid", "tid", "outcome"}}
	for _, e := range events {
		rows = append(rows, []string{
			e.Time.Format(time.RFC3339Nano), e.Object, e.Address.String(), e.Name,
			strconv.FormatUint(e.Calls, 10), fmt.Sprint(e.Pid), fmt.Sprint(e.Tid), e.Outcome,
		})
	}
	return csv.NewWriter(a.stdout).WriteAll(rows)
}
