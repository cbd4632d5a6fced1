package heat

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table/heat"
)

// Text writes a line for each area, or for each of its ranges, or for each slice.
func (m *Map) Text(w io.Writer, style report.Style) error {
	t := &m.Total
	if _, err := fmt.Fprintf(w, "%s: %s of %d bytes touched%s: %s read, %s written, %s executed; %s\n%s%s%s%s", m.Program, m.Count(t.Touched), m.Unit, m.Show.partText(),
		figures.Thousands(t.Read), figures.Thousands(t.Written), figures.Thousands(t.Executed), m.residentText(), m.linesText(), m.threadsText(), m.lastsText(), m.slicesText()); err != nil {
		return err
	}
	if m.Show.Curve {
		return m.curveText(w, style)
	}
	var rows [][3]string
	heading := m.heading()
	for i := range m.Areas {
		a := &m.Areas[i]
		name := filepath.Base(a.Name)
		if !m.Show.Ranges {
			if a.Ours {
				name = style.Dim("dynprof's own")
			}
			rows = append(rows, [3]string{m.line(a), name, ""})
			continue
		}
		for k := range a.Ranges {
			r := &a.Ranges[k]
			rows = append(rows, [3]string{m.lineOf(r), name, fmt.Sprintf("%s %s%s", r.Address, r.text(), r.symbolsText()+r.Whose.text()+r.Lasts.text())})
		}
	}
	if err := report.Rows(w, style, heading, rows); err != nil {
		return err
	}
	text := "Not seen: what the kernel touches, as in system calls.\n"
	if m.Source == "" {
		text = m.Unseen.text(m.Cut)
	}
	if m.Torn > 0 {
		text += fmt.Sprintf("The file ends in the middle of a record: what was noted last is not here (%s; it was cut short, or copied while it was written).\n", figures.Count(uint64(m.Torn), "byte"))
	}
	_, err := io.WriteString(w, text)
	return err
}

// residentText says how much was in memory, and when.
func (m *Map) residentText() string {
	when := "at its start"
	switch {
	case m.Source != "":
		return "by a log of " + m.Source
	case m.Ended:
		when = "at its end"
	case m.Time > 0:
		when = fmt.Sprintf("%s after its start, when its mappings were last looked at", time.Duration(m.Time).Round(time.Millisecond))
	}
	if m.Untold {
		return "how much was resident is not known; mapped is what was " + when
	}
	return figures.Thousands(m.Total.Resident) + " resident " + when
}

// symbolsText is what lies in a range.
func (r *Range) symbolsText() string {
	const most = 3
	if len(r.Symbols) == 0 {
		return ""
	}
	n := min(len(r.Symbols), most)
	text := " " + strings.Join(r.Symbols[:n], ", ")
	if more := len(r.Symbols) - n + r.More; more > 0 {
		text += fmt.Sprintf(" and %s more", figures.Thousands(uint64(more)))
	}
	return text
}

// partText says which part of the time is shown.
func (s *Show) partText() string {
	text := ""
	if s.After > 0 {
		text = " behind the first " + figures.Count(s.After, "instruction")
	}
	if s.Before > 0 {
		text += " up to " + figures.Count(s.Before, "instruction")
	}
	return text
}

// Count is so many units, for people.
func (m *Map) Count(n uint64) string { return figures.Count(n, m.Noun()) }

// Noun is what a unit is called.
func (m *Map) Noun() string { return noun(m.unit) }

// FinestNoun is what a granule is called.
func (m *Map) FinestNoun() string { return noun(m.finest.Granule) }

func (m *Map) heading() [3]string {
	switch {
	case !m.Show.Ranges && m.hasThreads:
		return [3]string{"TOUCHED\tREAD\tWRITTEN\tEXECUTED\tRESIDENT\tMAPPED\tSHARED\tTHREADS\tFIRST\tLAST", "MEMORY", ""}
	case m.hasThreads:
		return [3]string{"PAGES\tTHREADS\tFIRST\tLAST", "MEMORY", "ADDRESS"}
	case !m.Show.Ranges && m.hasLines:
		return [3]string{"TOUCHED\tREAD\tWRITTEN\tEXECUTED\tRESIDENT\tMAPPED\tLINES\tUSED\tFIRST\tLAST", "MEMORY", ""}
	case !m.Show.Ranges:
		return [3]string{"TOUCHED\tREAD\tWRITTEN\tEXECUTED\tRESIDENT\tMAPPED\tFIRST\tLAST", "MEMORY", ""}
	case m.hasLines:
		return [3]string{"PAGES\tLINES OF EACH\tFIRST\tLAST", "MEMORY", "ADDRESS"}
	case m.unit == heat.Page:
		return [3]string{"PAGES\tFIRST\tLAST", "MEMORY", "ADDRESS"}
	}
	return [3]string{"BYTES\tFIRST\tLAST", "MEMORY", "ADDRESS"}
}

// line is the figures of an area.
func (m *Map) line(a *Area) string {
	text := lineOf(a.Touched, a.Read, a.Written, a.Executed) + "\t-\t-"
	if m.Source == "" {
		text = lineOf(a.Touched, a.Read, a.Written, a.Executed, a.Resident, a.Mapped)
	}
	if m.hasLines {
		text += fmt.Sprintf("\t%s\t%s", figures.Thousands(a.Lines), a.used())
	}
	if m.hasThreads {
		text += fmt.Sprintf("\t%s\t%s", figures.Thousands(a.Shared), a.Whose.threadsCell())
	}
	for _, slice := range []uint32{a.First, a.Last} {
		if text += "\t"; slice == 0 {
			text += "-"
		} else {
			text += figures.Thousands(uint64(slice))
		}
	}
	return text
}

// lineOf is those of a range.
func (m *Map) lineOf(r *Range) string {
	switch {
	case m.hasThreads:
		return figures.Thousands(r.Pages) + "\t" + r.Whose.threadsCell() + "\t" + lineOf(uint64(r.First), uint64(r.Last))
	case m.hasLines:
		return lineOf(r.Pages, r.Lines, uint64(r.First), uint64(r.Last))
	case m.unit == heat.Page:
		return lineOf(r.Pages, uint64(r.First), uint64(r.Last))
	}
	return lineOf(r.Bytes, uint64(r.First), uint64(r.Last))
}

// linesText says how much of pages was touched.
func (m *Map) linesText() string {
	if !m.hasLines {
		return ""
	}
	return fmt.Sprintf("Of the lines of these pages, %d bytes each, %s were touched: %s.\n", heat.Line.Size(), figures.Thousands(m.Total.Lines), m.Total.used())
}

// used is how many lines of touched pages were touched.
func (s *Sums) used() string {
	if s.Touched == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(s.Lines)/float64(s.Touched)/(heat.PageSize>>heat.Line))
}

func lineOf(numbers ...uint64) string {
	var figure []string
	for _, n := range numbers {
		figure = append(figure, figures.Thousands(n))
	}
	return strings.Join(figure, "\t")
}

// text is r, w and x, or - in place of each.
func (r *Range) text() string {
	text := []byte("---")
	for i, is := range []bool{r.Read, r.Written, r.Executed} {
		if is {
			text[i] = "rwx"[i]
		}
	}
	return string(text)
}

// JSON writes the areas.
func (m *Map) JSON(w io.Writer) error {
	return report.WriteJSON(w, struct {
		Schema int `json:"schema"`
		*Map
	}{report.Schema, m}, "areas", m.Areas)
}

// CSV writes the ranges of pages, or the slices.
func (m *Map) CSV(w io.Writer) error {
	if m.Show.Curve {
		return m.curveCSV(w)
	}
	name := "bytes"
	if m.unit == heat.Page {
		name = "pages"
	}
	rows := [][]string{{"memory", "address", name, "read", "written", "executed", "first", "last"}}
	if m.hasLines {
		rows[0] = append(rows[0], "lines")
	}
	if m.hasThreads {
		rows[0] = append(rows[0], "threads", "readers", "writers")
	}
	rows[0] = append(rows[0], "read_first", "read_last", "written_first", "written_last", "executed_first", "executed_last", "symbols")
	if m.hasCode {
		rows[0] = append(rows[0], "last_reader", "last_reader_at", "last_writer", "last_writer_at")
	}
	for i := range m.Areas {
		for k := range m.Areas[i].Ranges {
			r := &m.Areas[i].Ranges[k]
			n := r.Bytes
			if m.unit == heat.Page {
				n = r.Pages
			}
			row := []string{
				m.Areas[i].Name, r.Address.String(), strconv.FormatUint(n, 10),
				strconv.FormatBool(r.Read), strconv.FormatBool(r.Written), strconv.FormatBool(r.Executed),
				strconv.FormatUint(uint64(r.First), 10), strconv.FormatUint(uint64(r.Last), 10),
			}
			if m.hasLines {
				row = append(row, strconv.FormatUint(r.Lines, 10))
			}
			if m.hasThreads {
				w := cmp.Or(r.Whose, &Whose{})
				row = append(row, strconv.Itoa(w.Threads), strings.Join(w.Readers, ";"), strings.Join(w.Writers, ";"))
			}
			for bit := range m.kinds {
				first, last := r.of(bit)
				row = append(row, strconv.FormatUint(uint64(*first), 10), strconv.FormatUint(uint64(*last), 10))
			}
			row = append(row, strings.Join(r.Symbols, ";"))
			if m.hasCode {
				row = append(row, r.Lasts.cells()...)
			}
			rows = append(rows, row)
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}
