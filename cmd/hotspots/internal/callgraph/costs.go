package callgraph

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
)

// Costs is what is shown of Inclusive.
type Costs struct{ *List }

// cost is a function in JSON.
type cost struct {
	*end
	Instructions uint64 `json:"instructions"`           // its own
	Inclusive    uint64 `json:"inclusive_instructions"` // with those of what it called
	Exact        bool   `json:"exact"`                  // else they are shared out by calls, or not all is known
	Cycle        int    `json:"cycle"`                  // so many functions call each other, and have these together; 0: none
}

// list is the first of all functions, as many as are shown, and the instructions of all.
func (c *Costs) list() (list []cost, total uint64) {
	for i, one := range c.Inclusive() {
		total += one.Own
		if c.Top == 0 || i < c.Top {
			list = append(list, cost{c.endOf(one.Function), one.Own, uint64(math.Round(one.Instructions)), one.Exact, one.Cycle})
		}
	}
	return list, total
}

// Text writes a line for each function. What was shared out, or lacks something, has a ~.
func (c *Costs) Text(w io.Writer, style report.Style) error {
	list, total := c.list()
	if _, err := fmt.Fprintf(w, "%s: %s instructions; ~: shared out by calls, or without calls that are not known\n", c.Program, figures.Thousands(total)); err != nil {
		return err
	}
	var rows [][3]string
	for i := range list {
		one := &list[i]
		inclusive, name := figures.Thousands(one.Inclusive), one.Name
		if !one.Exact {
			inclusive = "~" + inclusive
		}
		if one.Cycle > 0 {
			name += fmt.Sprintf(" (in a circle of %d)", one.Cycle)
		}
		rows = append(rows, [3]string{inclusive + "\t" + figures.Share(one.Inclusive, total) + "\t" + figures.Thousands(one.Instructions), filepath.Base(one.Object), name})
	}
	return report.Rows(w, style, [3]string{"INCLUSIVE\tSHARE\tITSELF", "OBJECT", "FUNCTION"}, rows)
}

// JSON writes the functions.
func (c *Costs) JSON(w io.Writer) error {
	list, total := c.list()
	return report.WriteJSON(w, struct {
		Schema  int    `json:"schema"`
		Program string `json:"program"`
		Total   uint64 `json:"total_instructions"`
	}{report.Schema, c.Program, total}, "functions", list)
}

// CSV writes the functions.
func (c *Costs) CSV(w io.Writer) error {
	rows := [][]string{{"object", "address", "name", "instructions", "inclusive_instructions", "exact", "cycle"}}
	list, _ := c.list()
	for i := range list {
		one := &list[i]
		rows = append(rows, []string{one.Object, one.Address.String(), one.Name, strconv.FormatUint(one.Instructions, 10),
			strconv.FormatUint(one.Inclusive, 10), strconv.FormatBool(one.Exact), strconv.Itoa(one.Cycle)})
	}
	return csv.NewWriter(w).WriteAll(rows)
}
