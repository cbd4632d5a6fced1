package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
)

// Executed is a program that ran once or several times.
type Executed struct {
	Program string `json:"program"`
	Runs    int    `json:"runs"` // how often it was executed
	Calls   uint64 `json:"calls"`
}

// ByProgram adds up the tables of each program, most calls first, or by name ("name").
func (r *Report) ByProgram(order string) []*Executed {
	byPath := map[string]*Executed{}
	var all []*Executed
	for i := range r.Programs {
		p := &r.Programs[i]
		one := byPath[p.Program]
		if one == nil {
			one = &Executed{Program: p.Program}
			byPath[p.Program] = one
			all = append(all, one)
		}
		one.Runs += p.runs()
		one.Calls += p.TotalCalls
	}
	slices.SortStableFunc(all, func(a, b *Executed) int {
		first := 0
		if order == "calls" {
			first = cmp.Compare(b.Calls, a.Calls)
		}
		return cmp.Or(first, cmp.Compare(a.Program, b.Program))
	})
	return all
}

// runs is how often the program was executed for what is in the table.
func (p *Program) runs() int { return max(1, p.Folded) }

// ProgramText writes programs: calls, share, cumulative share, how often each ran, path.
func (r *Report) ProgramText(w io.Writer, all []*Executed, style Style) error {
	if _, err := fmt.Fprintln(w, r.Headline()); err != nil {
		return err
	}
	return r.programTable(w, all, style)
}

func (r *Report) programTable(w io.Writer, all []*Executed, style Style) error {
	t := newText("CALLS\tSHARE\tCUM\tRUNS", "PROGRAM", "")
	var sum uint64
	for _, one := range all {
		sum += one.Calls
		t.row(fmt.Sprintf("%s\t%s\t%s\t%s", figures.Thousands(one.Calls), figures.Share(one.Calls, r.TotalCalls), figures.Share(sum, r.TotalCalls), figures.Thousands(uint64(one.Runs))), one.Program, "")
	}
	return t.write(w, style)
}

// ProgramJSON writes programs.
func (r *Report) ProgramJSON(w io.Writer, all []*Executed) error {
	return WriteJSON(w, r.head(), "programs", all)
}

// ProgramCSV writes programs.
func ProgramCSV(w io.Writer, all []*Executed) error {
	rows := [][]string{{"program", "runs", "calls"}}
	for _, p := range all {
		rows = append(rows, []string{p.Program, fmt.Sprint(p.Runs), fmt.Sprint(p.Calls)})
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// ProgramsText writes the programs with most calls, where there are several: what is shown
// behind functions at the end of a run.
func (r *Report) ProgramsText(w io.Writer, top int, style Style) error {
	all := r.ByProgram("calls")
	if len(all) < 2 {
		return nil
	}
	return r.programTable(w, all[:min(top, len(all))], style)
}
