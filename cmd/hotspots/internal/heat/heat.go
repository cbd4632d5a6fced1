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

// Map is the pages of a program.
type Map struct {
	Program  string  `json:"program"`
	PageSize int     `json:"page_size"`
	Ended    bool    `json:"mappings_at_end"` // else what is mapped is that at the start, and Resident
	Cut      bool    `json:"mappings_cut"`    // there are more than are known
	Total    Sums    `json:"total"`
	Unseen   Unseen  `json:"unseen"`
	Window   uint64  `json:"window"` // instructions: of how many before its end Point.WorkingSet is
	Curve    []Point `json:"slices"`
	Areas    []Area  `json:"-"`
	Bands    []Band  `json:"-"`
	Show     Show    `json:"-"`

	file *heat.File
	ran  []heat.Range // pages of blocks that have run
}

// Band is what is mapped of the same at neighbouring addresses.
type Band struct {
	Name       string // as an area has it
	First, End uint64 // pages
	Mapped     uint64 // pages of them that something is mapped at
	Ranges     []heat.Range
	resident   uint64
}

// Show is what text and CSV have, and how.
type Show struct {
	Pages  bool   // text: the ranges of pages
	Curve  bool   // a line for each slice
	Window uint64 // as Map.Window; 0: the usual one
}

// Sums are numbers of pages.
type Sums struct {
	Mapped   uint64 `json:"mapped"`
	Resident uint64 `json:"resident"`
	Touched  uint64 `json:"touched"` // read, written or executed
	Read     uint64 `json:"read"`
	Written  uint64 `json:"written"`
	Executed uint64 `json:"executed"`
}

// Area is all that is mapped of a file, or has a name in brackets; anonymous is what has none,
// and unmapped what is not there any more.
type Area struct {
	Name string `json:"name"`
	Sums
	Ranges []Range `json:"ranges"`
}

// Range is pages, one behind the other, with which the same was done.
type Range struct {
	Address  report.Address `json:"address"` // where they are in the program
	Pages    uint64         `json:"pages"`
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
	m := New(f, Executed(t, flow), show)
	m.Program = symname.Clean(t.Program)
	return m, s, flow, nil
}

// New is the map of what is beside a table, of which those pages were executed.
func New(f *heat.File, executed []heat.Range, show Show) *Map {
	m := &Map{PageSize: heat.PageSize, Ended: f.Ended, Cut: f.Cut, Show: show, file: f, ran: executed}
	m.lay(&f.Maps, settle(f.Pages(), executed))
	m.trace(f, show.Window)
	return m
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
func Executed(t *table.Table, flow *table.Flow) []heat.Range {
	var all []heat.Range
	for i := range flow.Blocks {
		if b := &flow.Blocks[i]; b.Runs > 0 {
			if r, ok := heat.OfBlock(t.Objects[t.Functions[b.Function].Object].Bias+b.Address, b.Size); ok {
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
		first, end := one.Start/heat.PageSize, one.End/heat.PageSize
		take(&Band{Name: unmapped, First: at, End: first}, first)
		take(&Band{Name: NameOf(one.Path), First: first, End: end, Mapped: end - first, resident: one.Resident / heat.PageSize}, end)
		at = end
	}
	take(&Band{Name: unmapped, First: at, End: heat.Pages}, heat.Pages)
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
			a.add(r)
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

func (a *Area) add(r heat.Range) {
	a.count(r)
	one := Range{report.Address(r.First * heat.PageSize), r.Pages, r.What&heat.WasRead != 0, r.What&heat.WasWritten != 0, r.What&heat.WasExecuted != 0, r.Begin, r.End}
	if n := len(a.Ranges); n > 0 {
		last := &a.Ranges[n-1]
		same := one
		same.Address, same.Pages = last.Address, last.Pages
		if uint64(last.Address)+last.Pages*heat.PageSize == uint64(one.Address) && *last == same {
			last.Pages += one.Pages
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
	if _, err := fmt.Fprintf(w, "%s: %s of %d bytes touched: %s read, %s written, %s executed; %s resident %s\n%s", m.Program, figures.Count(t.Touched, "page"), m.PageSize,
		figures.Thousands(t.Read), figures.Thousands(t.Written), figures.Thousands(t.Executed), figures.Thousands(t.Resident), when, m.slicesText()); err != nil {
		return err
	}
	if m.Show.Curve {
		return m.curveText(w, style)
	}
	var rows [][3]string
	heading := [3]string{"TOUCHED\tREAD\tWRITTEN\tEXECUTED\tRESIDENT\tMAPPED", "MEMORY", ""}
	if m.Show.Pages {
		heading = [3]string{"PAGES\tFIRST\tLAST", "MEMORY", "ADDRESS"}
	}
	for i := range m.Areas {
		a := &m.Areas[i]
		name := filepath.Base(a.Name)
		if !m.Show.Pages {
			rows = append(rows, [3]string{a.line(), name, ""})
			continue
		}
		for k := range a.Ranges {
			r := &a.Ranges[k]
			rows = append(rows, [3]string{lineOf(r.Pages, uint64(r.First), uint64(r.Last)), name, fmt.Sprintf("%s %s", r.Address, r.text())})
		}
	}
	if err := report.Rows(w, style, heading, rows); err != nil {
		return err
	}
	_, err := io.WriteString(w, m.Unseen.text(m.Cut))
	return err
}

func (s *Sums) line() string {
	return lineOf(s.Touched, s.Read, s.Written, s.Executed, s.Resident, s.Mapped)
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
	rows := [][]string{{"memory", "address", "pages", "read", "written", "executed", "first", "last"}}
	for i := range m.Areas {
		for k := range m.Areas[i].Ranges {
			r := &m.Areas[i].Ranges[k]
			rows = append(rows, []string{
				m.Areas[i].Name, r.Address.String(), strconv.FormatUint(r.Pages, 10),
				strconv.FormatBool(r.Read), strconv.FormatBool(r.Written), strconv.FormatBool(r.Executed),
				strconv.FormatUint(uint64(r.First), 10), strconv.FormatUint(uint64(r.Last), 10),
			})
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// Settle is what slices say of pages, as it is settled which were executed.
func Settle(pages, executed []heat.Range) []heat.Range { return only(pages, executed) }
