// Package loops lists the loops of a program with how often each was entered and went round.
package loops

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// List is the loops of a table that ran, those with most instructions first.
type List struct {
	Program      string `json:"program"`
	Instructions uint64 `json:"total_instructions"`        // of all functions whose blocks are counted
	Observed     int    `json:"partly_observed,omitempty"` // functions whose blocks are counted of some of their calls
	Loops        []Loop `json:"-"`
	Top          int    `json:"-"` // only so many; 0: all
	hasTrips     bool
}

// Loop is blocks that run in turn.
type Loop struct {
	Object       string         `json:"object"`
	BuildID      string         `json:"build_id"`
	Function     string         `json:"function"`
	Address      report.Address `json:"address"` // of the function
	Header       report.Address `json:"header"`  // of the block that it is entered at
	Depth        int            `json:"depth"`   // 1: in no other
	Iterations   uint64         `json:"iterations"`
	Entries      *uint64        `json:"entries"`      // null where they cannot be told from iterations
	Instructions uint64         `json:"instructions"` // those of loops in it as well
	Trips        *Trips         `json:"trips"`        // null where they are not counted
	NoTrips      string         `json:"no_trips"`     // why; else empty
}

// Of lists the loops of a table's functions, of those that are wanted by name if there is one.
func Of(t *table.Table, name string, mangled bool) (*List, error) {
	_, flow, err := report.Flow(t)
	if err != nil {
		return nil, err
	}
	list := &List{Program: symname.Clean(t.Program), hasTrips: t.HasTrips()}
	for i := range flow.Blocks {
		list.Instructions += flow.Blocks[i].Executed()
	}
	known := name == ""
	for i := range t.Functions {
		if _, some := flow.Observed(uint32(i)); some {
			list.Observed++
		}
		part := flow.Of(uint32(i))
		if name == "" && len(part.Loops) == 0 {
			continue // what is not shown needs no name
		}
		f := &t.Functions[i]
		o := &t.Objects[f.Object]
		shown := symname.Display(f.Name, o.Path, f.Address, !mangled)
		if name != "" && !report.IsNamed(f, shown, name) {
			continue
		}
		known = true
		for k := range part.Loops {
			l := &part.Loops[k]
			if l.Iterations > 0 {
				one := loop(&part, l, f, o, shown)
				one.Trips, one.NoTrips = TripsOf(l), whyNot(t, l)
				list.Loops = append(list.Loops, one)
			}
		}
	}
	if !known {
		return nil, report.NoneNamed(name)
	}
	slices.SortStableFunc(list.Loops, func(a, b Loop) int { return cmp.Compare(b.Instructions, a.Instructions) })
	return list, nil
}

func loop(p *table.Part, l *table.Loop, f *layout.Function, o *layout.Object, shown string) Loop {
	header, _ := p.Address(l.Header)
	one := Loop{
		Object: symname.Clean(o.Path), BuildID: o.BuildID, Function: shown, Address: report.Address(f.Address), Header: report.Address(header),
		Depth: l.Depth, Iterations: l.Iterations, Instructions: l.Executed,
	}
	if l.Flags&layout.LoopUntold == 0 {
		one.Entries = &l.Entries
	}
	return one
}

func (l *List) first() []Loop {
	if l.Top > 0 {
		return l.Loops[:min(l.Top, len(l.Loops))]
	}
	return l.Loops
}

// Text writes a line for each loop.
func (l *List) Text(w io.Writer, style report.Style) error {
	some := ""
	if l.Observed > 0 {
		some = fmt.Sprintf(", of %s in some calls only", figures.Count(uint64(l.Observed), "function"))
	}
	if _, err := fmt.Fprintf(w, "%s: %s ran; %s instructions in all functions whose blocks are counted%s\n", l.Program, figures.Count(uint64(len(l.Loops)), "loop"), figures.Thousands(l.Instructions), some); err != nil {
		return err
	}
	var rows [][3]string
	heading, buckets := "INSTRUCTIONS\tSHARE\tITERATIONS\tENTERED\tEACH\tDEPTH", 0
	for _, p := range l.first() {
		if p.Trips != nil && len(p.Trips.Buckets) > 0 {
			buckets = max(buckets, p.Trips.Buckets[len(p.Trips.Buckets)-1].number+1)
		}
	}
	if l.hasTrips {
		heading += "\tENDED\tLEAST\tMOST\tTRIPS"
	}
	for _, p := range l.first() {
		entries, each := "?", "?"
		if p.Entries != nil {
			entries = figures.Thousands(*p.Entries)
			if *p.Entries > 0 {
				each = fmt.Sprintf("%.1f", float64(p.Iterations)/float64(*p.Entries))
			}
		}
		line := fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d", figures.Thousands(p.Instructions), figures.Share(p.Instructions, l.Instructions), figures.Thousands(p.Iterations), entries, each, p.Depth)
		if l.hasTrips {
			line += "\t" + p.trips(buckets)
		}
		rows = append(rows, [3]string{
			line, filepath.Base(p.Object), fmt.Sprintf("%s at %s", p.Function, p.Header),
		})
	}
	if err := report.Rows(w, style, [3]string{heading, "OBJECT", "LOOP"}, rows); err != nil {
		return err
	}
	var out strings.Builder
	l.explain(&out)
	_, err := io.WriteString(w, out.String())
	return err
}

// trips are the columns of a loop's trips.
func (p *Loop) trips(buckets int) string {
	switch {
	case p.Trips == nil:
		return "?\t?\t?\t" + p.NoTrips
	case p.Trips.Ended == 0:
		return "0\t-\t-\t" + p.Trips.spark(buckets)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s", figures.Thousands(p.Trips.Ended), figures.Thousands(p.Trips.Least), figures.Thousands(p.Trips.Most), p.Trips.spark(buckets))
}

// JSON writes the loops.
func (l *List) JSON(w io.Writer) error {
	return report.WriteJSON(w, struct {
		Schema int `json:"schema"`
		*List
	}{report.Schema, l}, "loops", l.first())
}

// CSV writes the loops.
func (l *List) CSV(w io.Writer) error {
	rows := [][]string{{"object", "function", "address", "header", "depth", "iterations", "entries", "instructions", "ended", "least", "most"}}
	for _, p := range l.first() {
		entries := ""
		if p.Entries != nil {
			entries = strconv.FormatUint(*p.Entries, 10)
		}
		ended, least, most := "", "", ""
		if p.Trips != nil {
			ended, least, most = strconv.FormatUint(p.Trips.Ended, 10), strconv.FormatUint(p.Trips.Least, 10), strconv.FormatUint(p.Trips.Most, 10)
		}
		rows = append(rows, []string{
			p.Object, p.Function, p.Address.String(), p.Header.String(), strconv.Itoa(p.Depth),
			strconv.FormatUint(p.Iterations, 10), entries, strconv.FormatUint(p.Instructions, 10), ended, least, most,
		})
	}
	return csv.NewWriter(w).WriteAll(rows)
}
