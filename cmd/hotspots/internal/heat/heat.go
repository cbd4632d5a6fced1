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
	Program  string `json:"program"`
	PageSize int    `json:"page_size"`
	Ended    bool   `json:"mappings_at_end"` // else what is mapped is that at the start, and Resident
	Cut      bool   `json:"mappings_cut"`    // there are more than are known
	Total    Sums   `json:"total"`
	Unseen   Unseen `json:"unseen"`
	Areas    []Area `json:"-"`
	Each     bool   `json:"-"` // text shows the ranges of pages
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
}

const (
	anonymous = "[anonymous]"
	unmapped  = "[unmapped]"
)

// what is done with a page.
type what struct{ read, written, executed bool }

// Of is the map of a table.
func Of(t *table.Table) (*Map, error) {
	f, err := heat.Read(t.Path(), t.Nonce)
	if err != nil {
		if err == heat.ErrNone {
			err = fmt.Errorf("%s: %w: run the program with hotspots run --heat=pages", t.Path(), err)
		}
		return nil, err
	}
	s, flow, err := report.Flow(t)
	if err != nil {
		return nil, err
	}
	m := &Map{Program: symname.Clean(t.Program), PageSize: heat.PageSize, Ended: f.Ended, Cut: f.Cut}
	m.lay(f, executed(t, flow))
	m.Unseen = unseen(t, s, flow)
	return m, nil
}

// span is pages [first, end) with which the same was done.
type span struct {
	first, end uint64
	what
}

// executed lists the pages whose instructions have run, as far as they are counted by block, by
// address.
func executed(t *table.Table, flow *table.Flow) (list []span) {
	var all []span
	for i := range flow.Blocks {
		b := &flow.Blocks[i]
		if b.Runs == 0 || b.Size == 0 {
			continue
		}
		at := t.Objects[t.Functions[b.Function].Object].Bias + b.Address
		if last := at + uint64(b.Size) - 1; last >= at {
			all = append(all, span{at / heat.PageSize, last/heat.PageSize + 1, what{executed: true}})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	for _, s := range all {
		if n := len(list); n > 0 && s.first <= list[n-1].end {
			list[n-1].end = max(list[n-1].end, s.end)
		} else {
			list = append(list, s)
		}
	}
	return list
}

// join makes one list of two, each by address: in memory by their lengths, and not by that of
// what they span, which a file may say to be anything.
func join(touched, executed []span) (list []span) {
	for len(touched) > 0 && len(executed) > 0 {
		t, e := &touched[0], &executed[0]
		s := span{first: min(t.first, e.first)}
		switch {
		case t.first < e.first:
			s.end, s.what = min(t.end, e.first), t.what
		case e.first < t.first:
			s.end, s.what = min(e.end, t.first), e.what
		default:
			s.end, s.what = min(t.end, e.end), what{t.read, t.written, true}
		}
		list = append(list, s)
		t.first, e.first = max(t.first, s.end), max(e.first, s.end)
		if t.first == t.end {
			touched = touched[1:]
		}
		if e.first == e.end {
			executed = executed[1:]
		}
	}
	return append(append(list, touched...), executed...)
}

// lay gives each area its pages.
func (m *Map) lay(f *heat.File, executed []span) {
	touched := make([]span, len(f.Ranges))
	for i, r := range f.Ranges {
		touched[i] = span{r.First, r.First + r.Pages, what{read: r.Read, written: r.Written}}
	}
	pages := join(touched, executed)
	areas := map[string]*Area{}
	area := func(name string) *Area {
		if areas[name] == nil {
			areas[name] = &Area{Name: name, Ranges: []Range{}}
		}
		return areas[name]
	}
	take := func(a *Area, end uint64) {
		for len(pages) > 0 && pages[0].first < end {
			s := pages[0]
			s.end = min(s.end, end)
			a.add(s)
			if pages[0].first = s.end; s.end == pages[0].end {
				pages = pages[1:]
			}
		}
	}
	for _, one := range f.Mappings {
		take(area(unmapped), one.Start/heat.PageSize)
		a := area(nameOf(one.Path))
		a.Mapped += (one.End - one.Start) / heat.PageSize
		a.Resident += one.Resident / heat.PageSize
		take(a, one.End/heat.PageSize)
	}
	take(area(unmapped), 1<<64/heat.PageSize)
	for _, a := range areas {
		if a.Mapped == 0 && a.Touched == 0 || isOurs(a.Name) {
			continue
		}
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

func nameOf(path string) string {
	if path == "" {
		return anonymous
	}
	return symname.Clean(path)
}

// isOurs reports whether an area is the shadow itself.
func isOurs(name string) bool { return strings.HasPrefix(name, "/memfd:dynprof-heat") }

func (s *Sums) add(t *Sums) {
	s.Mapped += t.Mapped
	s.Resident += t.Resident
	s.Touched += t.Touched
	s.Read += t.Read
	s.Written += t.Written
	s.Executed += t.Executed
}

func (a *Area) add(s span) {
	n := s.end - s.first
	of := func(is bool) uint64 {
		if is {
			return n
		}
		return 0
	}
	a.Sums.add(&Sums{Touched: n, Read: of(s.read), Written: of(s.written), Executed: of(s.executed)})
	at := report.Address(s.first * heat.PageSize)
	if k := len(a.Ranges); k > 0 {
		last := &a.Ranges[k-1]
		if uint64(last.Address)+last.Pages*heat.PageSize == uint64(at) && last.is() == s.what {
			last.Pages += n
			return
		}
	}
	a.Ranges = append(a.Ranges, Range{at, n, s.read, s.written, s.executed})
}

func (r *Range) is() what { return what{r.Read, r.Written, r.Executed} }

// Text writes a line for each area, or for each of its ranges.
func (m *Map) Text(w io.Writer, style report.Style) error {
	when := "at its end"
	if !m.Ended {
		when = "at its start"
	}
	t := &m.Total
	if _, err := fmt.Fprintf(w, "%s: %s of %d bytes touched: %s read, %s written, %s executed; %s resident %s\n", m.Program, figures.Count(t.Touched, "page"), m.PageSize,
		figures.Thousands(t.Read), figures.Thousands(t.Written), figures.Thousands(t.Executed), figures.Thousands(t.Resident), when); err != nil {
		return err
	}
	var rows [][3]string
	heading := [3]string{"TOUCHED\tREAD\tWRITTEN\tEXECUTED\tRESIDENT\tMAPPED", "MEMORY", ""}
	if m.Each {
		heading = [3]string{"PAGES", "MEMORY", "ADDRESS"}
	}
	for i := range m.Areas {
		a := &m.Areas[i]
		name := filepath.Base(a.Name)
		if !m.Each {
			rows = append(rows, [3]string{a.line(), name, ""})
			continue
		}
		for k := range a.Ranges {
			r := &a.Ranges[k]
			rows = append(rows, [3]string{figures.Thousands(r.Pages), name, fmt.Sprintf("%s %s", r.Address, r.text())})
		}
	}
	if err := report.Rows(w, style, heading, rows); err != nil {
		return err
	}
	_, err := io.WriteString(w, m.Unseen.text(m.Cut))
	return err
}

func (s *Sums) line() string {
	var figure []string
	for _, n := range []uint64{s.Touched, s.Read, s.Written, s.Executed, s.Resident, s.Mapped} {
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

// CSV writes the ranges of pages.
func (m *Map) CSV(w io.Writer) error {
	rows := [][]string{{"memory", "address", "pages", "read", "written", "executed"}}
	for i := range m.Areas {
		for k := range m.Areas[i].Ranges {
			r := &m.Areas[i].Ranges[k]
			rows = append(rows, []string{
				m.Areas[i].Name, r.Address.String(), strconv.FormatUint(r.Pages, 10),
				strconv.FormatBool(r.Read), strconv.FormatBool(r.Written), strconv.FormatBool(r.Executed),
			})
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}
