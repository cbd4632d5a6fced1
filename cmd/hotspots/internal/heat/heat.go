// Package heat shows which pages of memory a program has touched.
package heat

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
	"github.com/dynprof/dynprof/internal/table/heat"
)

// Map is the pages of a program, or smaller granules: those are its units.
type Map struct {
	Program  string  `json:"program"`
	PageSize int     `json:"page_size"`
	Granule  uint64  `json:"granule"`         // bytes of what was noted as one
	Unit     uint64  `json:"unit"`            // bytes of what is shown as one: all numbers are of these
	Ended    bool    `json:"mappings_at_end"` // else what is mapped is that at the start, and Resident
	Cut      bool    `json:"mappings_cut"`    // there are more than are known
	Total    Sums    `json:"total"`
	Unseen   Unseen  `json:"unseen"`
	After    uint64  `json:"from,omitempty"` // instructions: the part of the time that is shown
	Before   uint64  `json:"to,omitempty"`
	Window   uint64  `json:"window"` // instructions: of how many before its end Point.WorkingSet is
	Curve    []Point `json:"slices"`
	Areas    []Area  `json:"-"`
	Bands    []Band  `json:"-"`
	Show     Show    `json:"-"`

	unit     heat.Granule
	file     *heat.File   // in units
	ran      []heat.Range // those of blocks that have run
	hasLines bool         // units are pages, of whose lines it is known which were touched:
	lines    []heat.Range // those of them that are not laid out yet
}

// Band is what is mapped of the same at neighbouring addresses.
type Band struct {
	Name       string // as an area has it
	First, End uint64 // units
	Mapped     uint64 // those of them that something is mapped at
	Ranges     []heat.Range
	resident   uint64
}

// Show is what text and CSV have, and how.
type Show struct {
	Ranges bool         // text: the ranges
	Curve  bool         // a line for each slice
	Window uint64       // as Map.Window; 0: the usual one
	By     heat.Granule // units; 0: pages
	After  uint64       // what was touched when so many instructions had run,
	Before uint64       // and no more than these; 0: to the end
}

// isPart reports whether a part of the time is shown.
func (s *Show) isPart() bool { return s.After > 0 || s.Before > 0 }

// Sums are numbers of units.
type Sums struct {
	Mapped   uint64 `json:"mapped"`
	Resident uint64 `json:"resident"`
	Touched  uint64 `json:"touched"` // read, written or executed
	Read     uint64 `json:"read"`
	Written  uint64 `json:"written"`
	Executed uint64 `json:"executed"`
	Lines    uint64 `json:"lines"` // of pages: those of their lines that were touched; 0 where these were not noted
}

// Area is all that is mapped of a file, or has a name in brackets; anonymous is what has none,
// and unmapped what is not there any more.
type Area struct {
	Name string `json:"name"`
	Sums
	Ranges []Range `json:"ranges"`
}

// Range is units, one behind the other, with which the same was done.
type Range struct {
	Address  report.Address `json:"address"` // where they are in the program
	Bytes    uint64         `json:"bytes"`
	Pages    uint64         `json:"pages,omitempty"` // where these are the units,
	Lines    uint64         `json:"lines,omitempty"` // and how many lines of each of them were touched; 0 where these were not noted
	Read     bool           `json:"read"`
	Written  bool           `json:"written"`
	Executed bool           `json:"executed"`
	First    uint32         `json:"first"` // slice in which something was done with them, from 1; 0: not told
	Last     uint32         `json:"last"`
}

const (
	anonymous = "[anonymous]"
	unmapped  = "[unmapped]"
)

// Of is the map of a table.
func Of(t *table.Table, show Show) (*Map, error) {
	m, s, flow, err := pagesOf(t, show)
	if err != nil {
		return nil, err
	}
	m.Unseen = UnseenOf(t, s, flow)
	return m, nil
}

// PagesOf is the same without Unseen, which takes long.
func PagesOf(t *table.Table, show Show) (*Map, error) {
	m, _, _, err := pagesOf(t, show)
	return m, err
}

func pagesOf(t *table.Table, show Show) (*Map, *table.Snapshot, *table.Flow, error) {
	f, err := File(t)
	if err != nil {
		return nil, nil, nil, err
	}
	s, flow, err := report.Flow(t)
	if err != nil {
		return nil, nil, nil, err
	}
	if show.By != 0 && show.By < f.Noted {
		return nil, nil, nil, fmt.Errorf("%s: %ss of %d bytes were noted: run the program with hotspots run --heat=%s", t.Path(), noun(f.Noted), f.Noted.Size(), heatOf(show.By))
	}
	m := New(f.In(f.Noted), ExecutedIn(t, flow, f.Noted), show)
	m.Program = symname.Clean(t.Program)
	return m, s, flow, nil
}

// noun is what users read of.
func noun(g heat.Granule) string {
	switch g {
	case heat.Page:
		return "page"
	case heat.Line:
		return "line"
	}
	return "granule"
}

// heatOf is how such granules are noted.
func heatOf(g heat.Granule) string {
	for name, is := range heat.Names {
		if is == g {
			return name
		}
	}
	return ""
}

// New is the map of what is beside a table, in pages or smaller granules, of which those were
// executed.
func New(f *heat.File, executed []heat.Range, show Show) *Map {
	unit := max(cmp.Or(show.By, heat.Page), f.Granule)
	by := unit - f.Granule
	m := &Map{PageSize: heat.PageSize, Granule: f.Noted.Size(), Unit: unit.Size(), Ended: f.Ended, Cut: f.Cut, After: show.After, Before: show.Before, Show: show, unit: unit, file: f.In(unit), ran: heat.Coarse(nil, executed, by)}
	touched := touchedIn(f, executed, &show)
	if m.hasLines = unit == heat.Page && f.Granule <= heat.Line; m.hasLines {
		m.lines = heat.Coarse(nil, touched, heat.Line-f.Granule)
	}
	m.lay(&f.Maps, heat.Coarse(nil, touched, by))
	m.trace(m.file, show.Window)
	return m
}

// touchedIn is what was touched in the time that is shown. What ran by the table, and in no slice, is
// in all of it only.
func touchedIn(f *heat.File, executed []heat.Range, show *Show) []heat.Range {
	if !show.isPart() {
		return settle(f.Pages(), executed)
	}
	part := heat.All
	if part.After = show.After; show.Before > 0 {
		part.Before = show.Before
	}
	return only(f.Within(part), executed)
}

// File is what is beside the table, or an error that says what to do.
func File(t *table.Table) (*heat.File, error) {
	f, err := heat.Read(t.Path(), t.Nonce)
	return f, NotNoted(t.Path(), err)
}

// NotNoted adds to heat.ErrNone what to do.
func NotNoted(table string, err error) error {
	if err == heat.ErrNone {
		err = fmt.Errorf("%s: %w: run the program with hotspots run --heat=pages", table, err)
	}
	return err
}

// Executed lists the pages whose instructions have run, as far as they are counted by block, by
// address.
func Executed(t *table.Table, flow *table.Flow) []heat.Range { return ExecutedIn(t, flow, heat.Page) }

// ExecutedIn is the same by other granules.
func ExecutedIn(t *table.Table, flow *table.Flow, g heat.Granule) []heat.Range {
	var all []heat.Range
	for i := range flow.Blocks {
		if b := &flow.Blocks[i]; b.Runs > 0 {
			if r, ok := g.OfBlock(t.Objects[t.Functions[b.Function].Object].Bias+b.Address, b.Size); ok {
				all = append(all, r)
			}
		}
	}
	return heat.Flat(all)
}

// Each calls use with each slice, as it is settled which pages were executed.
func (m *Map) Each(use func(*heat.Slice)) {
	m.file.Each(func(s *heat.Slice) {
		one := *s
		one.Ranges = only(s.Ranges, m.ran)
		use(&one)
	})
}

// only is pages without those that are said to have been executed and have not.
func only(pages, executed []heat.Range) (list []heat.Range) {
	for _, r := range pages {
		for r.What&heat.WasExecuted != 0 && r.Pages > 0 {
			for len(executed) > 0 && executed[0].First+executed[0].Pages <= r.First {
				executed = executed[1:]
			}
			part, ran := r, false
			if len(executed) > 0 && executed[0].First < r.First+r.Pages {
				if ran = executed[0].First <= r.First; ran {
					part.Pages = min(r.Pages, executed[0].First+executed[0].Pages-r.First)
				} else {
					part.Pages = executed[0].First - r.First
				}
			}
			if !ran {
				part.What &^= heat.WasExecuted
			}
			if part.What != 0 {
				list = append(list, part)
			}
			r.First, r.Pages = r.First+part.Pages, r.Pages-part.Pages
		}
		if r.Pages > 0 {
			list = append(list, r)
		}
	}
	return list
}

// settle says which pages were executed: those of blocks that have run by the table. A slice
// may have more, as it knows only where threads are by how they came there.
func settle(pages, executed []heat.Range) []heat.Range {
	return heat.Union(only(pages, executed), executed)
}

// lay gives each band and each area its pages.
func (m *Map) lay(maps *heat.Maps, pages []heat.Range) {
	size := m.unit.Size()
	take := func(b *Band, end uint64) {
		for len(pages) > 0 && pages[0].First < end {
			r := pages[0]
			r.Pages = min(r.Pages, end-r.First)
			b.Ranges = append(b.Ranges, r)
			if pages[0].Pages -= r.Pages; pages[0].Pages == 0 {
				pages = pages[1:]
			} else {
				pages[0].First += r.Pages
			}
		}
		m.put(b)
	}
	at := uint64(0)
	for _, one := range maps.Mappings {
		first, end := one.Start/size, one.End/size
		take(&Band{Name: unmapped, First: at, End: first}, first)
		take(&Band{Name: NameOf(one.Path), First: first, End: end, Mapped: end - first, resident: one.Resident / size}, end)
		at = end
	}
	take(&Band{Name: unmapped, First: at, End: m.unit.Count()}, m.unit.Count())
	areas := map[string]*Area{}
	for i := range m.Bands {
		b := &m.Bands[i]
		a := areas[b.Name]
		if a == nil {
			a = &Area{Name: b.Name, Ranges: []Range{}}
			areas[b.Name] = a
		}
		a.Mapped, a.Resident = a.Mapped+b.Mapped, a.Resident+b.resident
		for _, r := range b.Ranges {
			m.add(a, r)
		}
	}
	for _, a := range areas {
		m.Areas = append(m.Areas, *a)
		m.Total.add(&a.Sums)
	}
	slices.SortFunc(m.Areas, func(a, b Area) int {
		if a.Touched != b.Touched {
			return cmp.Compare(b.Touched, a.Touched)
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// put puts a band behind the others, or makes it one with the last.
func (m *Map) put(b *Band) {
	if b.Mapped == 0 && len(b.Ranges) == 0 || IsOurs(b.Name) {
		return
	}
	if n := len(m.Bands); n > 0 && m.Bands[n-1].Name == b.Name {
		last := &m.Bands[n-1]
		last.End, last.Mapped, last.resident, last.Ranges = b.End, last.Mapped+b.Mapped, last.resident+b.resident, append(last.Ranges, b.Ranges...)
		return
	}
	m.Bands = append(m.Bands, *b)
}

// NameOf is what an area is called with what /proc/PID/maps says is mapped there.
func NameOf(path string) string {
	if path == "" {
		return anonymous
	}
	return symname.Clean(path)
}

// IsOurs reports whether an area is the shadow itself.
func IsOurs(name string) bool { return strings.HasPrefix(name, "/memfd:dynprof-heat") }

func (s *Sums) add(t *Sums) {
	s.Mapped += t.Mapped
	s.Resident += t.Resident
	s.Touched += t.Touched
	s.Read += t.Read
	s.Written += t.Written
	s.Executed += t.Executed
	s.Lines += t.Lines
}

func (s *Sums) count(r heat.Range) {
	of := func(is heat.What) uint64 {
		if r.What&is != 0 {
			return r.Pages
		}
		return 0
	}
	s.add(&Sums{Touched: r.Pages, Read: of(heat.WasRead), Written: of(heat.WasWritten), Executed: of(heat.WasExecuted)})
}

// add adds units to an area, behind those that it has: pages by how many lines of each were
// touched.
func (m *Map) add(a *Area, r heat.Range) {
	a.count(r)
	for r.Pages > 0 {
		one := Range{
			Address: report.Address(r.First * m.unit.Size()), Read: r.What&heat.WasRead != 0, Written: r.What&heat.WasWritten != 0, Executed: r.What&heat.WasExecuted != 0,
			First: r.Begin, Last: r.End,
		}
		n := r.Pages
		if m.unit == heat.Page {
			n, one.Lines = m.takeLines(&r)
			one.Pages = n
		}
		one.Bytes = n * m.unit.Size()
		a.Lines += n * one.Lines
		a.put(one)
		r.First, r.Pages = r.First+n, r.Pages-n
	}
}

// takeLines is how many lines of the first page of a range were touched, and of how many pages
// this is so.
func (m *Map) takeLines(r *heat.Range) (pages, lines uint64) {
	const each = heat.PageSize >> heat.Line
	if len(m.lines) == 0 {
		return r.Pages, 0
	}
	at := r.First * each
	for len(m.lines) > 0 && m.lines[0].First < at { // of what is not shown
		l := &m.lines[0]
		n := min(l.Pages, at-l.First)
		if l.First, l.Pages = l.First+n, l.Pages-n; l.Pages == 0 {
			m.lines = m.lines[1:]
		}
	}
	pages = 1
	for len(m.lines) > 0 && m.lines[0].First < at+each {
		l := &m.lines[0]
		n := min(l.Pages, at+each-l.First)
		if n == each {
			pages = min(r.Pages, l.Pages/each)
			n *= pages
		}
		lines += n / pages
		if l.First, l.Pages = l.First+n, l.Pages-n; l.Pages == 0 {
			m.lines = m.lines[1:]
		}
		if pages > 1 {
			break
		}
	}
	return pages, lines
}

// put puts a range behind the others, or makes it one with the last.
func (a *Area) put(one Range) {
	if n := len(a.Ranges); n > 0 {
		last := &a.Ranges[n-1]
		same := one
		same.Address, same.Bytes, same.Pages = last.Address, last.Bytes, last.Pages
		if uint64(last.Address)+last.Bytes == uint64(one.Address) && *last == same {
			last.Bytes, last.Pages = last.Bytes+one.Bytes, last.Pages+one.Pages
			return
		}
	}
	a.Ranges = append(a.Ranges, one)
}

// Text writes a line for each area, or for each of its ranges, or for each slice.
func (m *Map) Text(w io.Writer, style report.Style) error {
	when := "at its end"
	if !m.Ended {
		when = "at its start"
	}
	t := &m.Total
	if _, err := fmt.Fprintf(w, "%s: %s of %d bytes touched%s: %s read, %s written, %s executed; %s resident %s\n%s%s", m.Program, m.Count(t.Touched), m.Unit, m.Show.partText(),
		figures.Thousands(t.Read), figures.Thousands(t.Written), figures.Thousands(t.Executed), figures.Thousands(t.Resident), when, m.linesText(), m.slicesText()); err != nil {
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
			rows = append(rows, [3]string{m.line(a), name, ""})
			continue
		}
		for k := range a.Ranges {
			r := &a.Ranges[k]
			rows = append(rows, [3]string{m.lineOf(r), name, fmt.Sprintf("%s %s", r.Address, r.text())})
		}
	}
	if err := report.Rows(w, style, heading, rows); err != nil {
		return err
	}
	_, err := io.WriteString(w, m.Unseen.text(m.Cut))
	return err
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

func (m *Map) heading() [3]string {
	switch {
	case !m.Show.Ranges && m.hasLines:
		return [3]string{"TOUCHED\tREAD\tWRITTEN\tEXECUTED\tRESIDENT\tMAPPED\tLINES\tUSED", "MEMORY", ""}
	case !m.Show.Ranges:
		return [3]string{"TOUCHED\tREAD\tWRITTEN\tEXECUTED\tRESIDENT\tMAPPED", "MEMORY", ""}
	case m.hasLines:
		return [3]string{"PAGES\tLINES OF EACH\tFIRST\tLAST", "MEMORY", "ADDRESS"}
	case m.unit == heat.Page:
		return [3]string{"PAGES\tFIRST\tLAST", "MEMORY", "ADDRESS"}
	}
	return [3]string{"BYTES\tFIRST\tLAST", "MEMORY", "ADDRESS"}
}

// line is the figures of an area.
func (m *Map) line(a *Area) string {
	text := lineOf(a.Touched, a.Read, a.Written, a.Executed, a.Resident, a.Mapped)
	if m.hasLines {
		text += fmt.Sprintf("\t%s\t%s", figures.Thousands(a.Lines), a.used())
	}
	return text
}

// lineOf is those of a range.
func (m *Map) lineOf(r *Range) string {
	switch {
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
			rows = append(rows, row)
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// Settle is what slices say of pages, as it is settled which were executed.
func Settle(pages, executed []heat.Range) []heat.Range { return only(pages, executed) }
