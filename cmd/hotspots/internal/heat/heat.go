// Package heat shows which pages of memory a program has touched.
package heat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Map is the pages of a program, or smaller granules: those are its units.
type Map struct {
	Program  string   `json:"program"`
	PageSize int      `json:"page_size"`
	Granule  uint64   `json:"granule"`              // bytes of what was noted as one
	Unit     uint64   `json:"unit"`                 // bytes of what is shown as one: all numbers are of these
	Ended    bool     `json:"mappings_at_end"`      // else what is mapped is that of
	Time     uint64   `json:"mappings_ns"`          // so many nanoseconds since the start; 0: at it
	Untold   bool     `json:"resident_untold"`      // what of that is in memory is not known
	Cut      bool     `json:"mappings_cut"`         // there are more than are known
	Torn     int      `json:"torn_bytes,omitempty"` // of the file, behind its last whole record
	Source   string   `json:"source,omitempty"`     // the tool whose log all is of; empty: hotspots run has noted it
	Total    Sums     `json:"total"`
	Unseen   Unseen   `json:"unseen"`
	After    uint64   `json:"from,omitempty"` // instructions: the part of the time that is shown
	Before   uint64   `json:"to,omitempty"`
	Window   uint64   `json:"window"` // instructions: of how many before its end Point.WorkingSet is
	Curve    []Point  `json:"slices"`
	Told     []Thread `json:"threads,omitempty"`      // that are told apart, where that was noted
	TooMany  bool     `json:"threads_more,omitempty"` // there were more: some of these stand for several

	LastReaders []Function `json:"last_readers,omitempty"` // which have read most pages last, where that was noted,
	LastWriters []Function `json:"last_writers,omitempty"` // and which have written them

	Areas []Area `json:"-"`
	Bands []Band `json:"-"`
	Show  Show   `json:"-"`

	unit     heat.Granule
	file     *heat.File      // in units
	ran      []heat.Range    // those of blocks that have run
	finest   *heat.File      // in granules
	executed []heat.Range    // those of blocks that have run
	hasLines bool            // units are pages, of whose lines it is known which were touched:
	lines    []heat.Range    // those of them that are not laid out yet
	kinds    [3][]heat.Range // likewise, by bit of what was done: when
	symbols  *Symbols

	hasThreads bool // it is known who has touched what:
	threads    Threads
	whose      []heat.ByWhom // what is not laid out yet

	hasCode bool // it is known which instructions have touched what last:
	codes   *Codes
	lasts   []heat.ByLast // what is not laid out yet
}

// Band is what is mapped of the same at neighbouring addresses.
type Band struct {
	Name       string // as an area has it
	First, End uint64 // units
	Mapped     uint64 // those of them that something is mapped at
	Ranges     []heat.Range
	Ours       bool // it is dynprof's own: Mapped is 0
	resident   uint64
	own        uint64 // units that are mapped
}

// Show is what text and CSV have, and how.
type Show struct {
	Ranges  bool              // text: the ranges
	Curve   bool              // a line for each slice
	Mangled bool              // names as they are in the file
	Kinds   bool              // of each range when it was read, written and executed, each for itself
	Find    *debugfile.Finder // what has source lines; nil: they are not looked for
	Say     func(error)       // is told what cannot be read of them
	Window  uint64            // as Map.Window; 0: the usual one
	By      heat.Granule      // units; 0: pages
	Data    bool              // what was read and written only
	After   uint64            // what was touched when so many instructions had run,
	Before  uint64            // and no more than these; 0: to the end
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

// Area is all that is mapped of a file, with memory that belongs to it, or has a name in brackets;
// anonymous is what has none, and unmapped what is not there any more.
type Area struct {
	Name string `json:"name"`
	Ours bool   `json:"ours"` // dynprof's own: what is mapped and resident of it is in no total
	Sums
	First  uint32  `json:"first"` // slice in which something was done with any of it; 0: none is known
	Last   uint32  `json:"last"`
	Shared uint64  `json:"shared,omitempty"` // units that more than one thread has touched, where that was noted,
	*Whose         // and who has touched any
	Ranges []Range `json:"ranges"`

	who *heat.Who
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
	Kinds
	*Whose           // where it was noted,
	*Lasts           // as well
	Symbols []string `json:"symbols,omitempty"`      // functions and variables that lie in it, the first of them
	More    int      `json:"more_symbols,omitempty"` // how many more do
}

// Kinds are the first and the last slice in which units were read, written and executed; 0 as with
// these, and where that was not done.
type Kinds struct {
	ReadFirst     uint32 `json:"read_first,omitempty"`
	ReadLast      uint32 `json:"read_last,omitempty"`
	WrittenFirst  uint32 `json:"written_first,omitempty"`
	WrittenLast   uint32 `json:"written_last,omitempty"`
	ExecutedFirst uint32 `json:"executed_first,omitempty"`
	ExecutedLast  uint32 `json:"executed_last,omitempty"`
}

// of are the two of a bit of heat.What.
func (k *Kinds) of(bit int) (first, last *uint32) {
	return [...]*uint32{&k.ReadFirst, &k.WrittenFirst, &k.ExecutedFirst}[bit], [...]*uint32{&k.ReadLast, &k.WrittenLast, &k.ExecutedLast}[bit]
}

const (
	anonymous = "[anonymous]"
	unmapped  = "[unmapped]"
	shared    = "[shared]" // without a file
	own       = "[dynprof]"

	mostSymbols = 8 // of a range
)

// Of is the map of a table.
func Of(t *table.Table, show Show) (*Map, error) {
	m, s, flow, err := pagesOf(t, show)
	if err != nil {
		return nil, err
	}
	if m.Source == "" {
		m.Unseen = UnseenOf(t, s, flow)
	}
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
	s, flow, err := FlowOf(t, f)
	if err != nil {
		return nil, nil, nil, err
	}
	if show.By != 0 && show.By < f.Noted {
		do := "run the program with hotspots run --heat="
		if f.Source != "" {
			do = "import the log again with --granule "
		}
		return nil, nil, nil, fmt.Errorf("%s: %ss of %d bytes were noted: %s%s", t.Path(), noun(f.Noted), f.Noted.Size(), do, heatOf(show.By))
	}
	threads, err := ThreadsOf(t)
	if err != nil {
		return nil, nil, nil, err
	}
	symbols := SymbolsOf(t, show.Mangled)
	codes := NewCodes(symbols, func() []layout.Block { return BlocksOf(t) }, show.Find)
	f = f.In(f.Noted)
	executed := Executed(t, flow, f)
	if show.Data {
		f, executed = f.Without(heat.WasExecuted), nil
	}
	m := newMap(f, executed, show, symbols, threads, codes)
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
	return newMap(f, executed, show, nil, Threads{}, nil)
}

func newMap(f *heat.File, executed []heat.Range, show Show, symbols *Symbols, threads Threads, codes *Codes) *Map {
	unit := max(cmp.Or(show.By, heat.Page), f.Granule)
	by := unit - f.Granule
	m := &Map{PageSize: heat.PageSize, Granule: f.Noted.Size(), Unit: unit.Size(), Ended: f.Ended, Time: f.Time, Untold: f.Untold, Cut: f.Cut, Torn: f.Torn, Source: f.Source, After: show.After, Before: show.Before, Show: show, unit: unit, file: f.In(unit), ran: heat.Coarse(nil, executed, by), finest: f, executed: executed, symbols: symbols}
	touched := touchedIn(f, executed, &show)
	if m.hasLines = unit == heat.Page && f.Granule <= heat.Line; m.hasLines {
		m.lines = heat.Coarse(nil, touched, heat.Line-f.Granule)
	}
	if show.Kinds {
		for bit := range m.kinds {
			m.kinds[bit] = heat.Coarse(nil, kindIn(f, executed, &show, 1<<bit), by)
		}
	}
	if m.hasThreads = f.Threads; m.hasThreads {
		m.threads, m.whose = threads, f.Who
		m.Told, m.TooMany = threads.All, threads.More
	}
	if m.hasCode = f.Code && codes != nil; m.hasCode {
		m.codes, m.lasts = codes, f.Lasts
	}
	m.lay(&f.Maps, heat.Coarse(nil, touched, by))
	m.name()
	if m.hasCode {
		m.sumLasts(show.Say)
	}
	m.trace(m.file, show.Window)
	return m
}

// touchedIn is what was touched in the time that is shown. What ran by the table, and in no slice, is
// in all of it only.
func touchedIn(f *heat.File, executed []heat.Range, show *Show) []heat.Range {
	return kindIn(f, executed, show, heat.WasRead|heat.WasWritten|heat.WasExecuted)
}

// kindIn is the same of some of what was done.
func kindIn(f *heat.File, executed []heat.Range, show *Show, what heat.What) []heat.Range {
	part := heat.All
	if part.After = show.After; show.Before > 0 {
		part.Before = show.Before
	}
	list := f.WithinOf(part, what)
	if what&heat.WasExecuted != 0 && !show.isPart() {
		return settle(list, executed)
	}
	return only(list, executed)
}

// File is what is beside the table, or an error that says what to do.
func File(t *table.Table) (*heat.File, error) {
	f, err := heat.Read(t.Path(), t.Nonce)
	if err == nil {
		f.Mappings = Named(f.Mappings, t.Objects, t.Path())
	}
	if err == heat.ErrNone && t.Flags&layout.FlagMemory != 0 {
		return nil, fmt.Errorf("%w, or what was is lost: %s is not there, or is of another run; hotspots snapshot copies a table with it", err, heat.PathOf(t.Path()))
	}
	return f, NotNoted(t.Path(), err)
}

// NotNoted adds to heat.ErrNone what to do.
func NotNoted(table string, err error) error {
	if err == heat.ErrNone {
		err = fmt.Errorf("%s: %w: run the program with hotspots run --heat=pages", table, err)
	}
	return err
}

// FlowOf is how control went, as the table of a file, if there is one, counts it; nil where a log tells
// what ran.
func FlowOf(t *table.Table, f *heat.File) (*table.Snapshot, *table.Flow, error) {
	if f != nil && f.Source != "" {
		return nil, nil, nil
	}
	return report.Flow(t)
}

// Executed lists the file's granules whose instructions have run, as far as the table counts them by
// block, or as a log tells, by address. Flow is that of FlowOf.
func Executed(t *table.Table, flow *table.Flow, f *heat.File) []heat.Range {
	if f.Source != "" {
		return heat.Unnumbered(f.WithinOf(heat.All, heat.WasExecuted))
	}
	var all []heat.Range
	for i := range flow.Blocks {
		if b := &flow.Blocks[i]; b.Runs > 0 {
			if r, ok := f.Granule.OfBlock(t.Objects[t.Functions[b.Function].Object].Bias+b.Address, b.Size); ok {
				all = append(all, r)
			}
		}
	}
	return heat.Flat(all)
}

// Each calls use with each slice, as it is settled which pages were executed.
func (m *Map) Each(use func(*heat.Slice)) { each(m.file, m.ran, use) }

// EachFinest is the same with granules in place of units, which have no more bytes.
func (m *Map) EachFinest(use func(*heat.Slice)) { each(m.finest, m.executed, use) }

// Finest is how many bytes these are.
func (m *Map) Finest() heat.Granule { return m.finest.Granule }

func each(f *heat.File, ran []heat.Range, use func(*heat.Slice)) {
	f.Each(func(s *heat.Slice) {
		one := *s
		one.Ranges = only(s.Ranges, ran)
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
	for i := range maps.Mappings {
		one := &maps.Mappings[i]
		b := &Band{Name: NameOf(one), First: one.Start / size, End: one.End / size, Ours: one.Ours || one.IsShadow(), resident: one.Resident / size}
		switch n := b.End - b.First; {
		case one.Ours && !one.IsShadow():
			b.own = n
		case !b.Ours && !one.Gone:
			b.Mapped = n
		}
		take(&Band{Name: unmapped, First: at, End: b.First}, b.First)
		take(b, b.End)
		at = b.End
	}
	take(&Band{Name: unmapped, First: at, End: m.unit.Count()}, m.unit.Count())
	m.sum()
}

// sum gives each area its bands.
func (m *Map) sum() {
	areas := map[string]*Area{}
	for i := range m.Bands {
		b := &m.Bands[i]
		name := b.Name
		if b.Ours {
			name = own
		}
		a := areas[name]
		if a == nil {
			a = &Area{Name: name, Ours: b.Ours, Ranges: []Range{}}
			areas[name] = a
		}
		a.Mapped, a.Resident = a.Mapped+b.Mapped+b.own, a.Resident+b.resident
		for _, r := range b.Ranges {
			m.add(a, r)
		}
	}
	for _, a := range areas {
		a.Whose = m.threads.Of(a.who)
		m.Areas = append(m.Areas, *a)
		if a.Ours {
			a.Mapped, a.Resident = 0, 0
		}
		m.Total.add(&a.Sums)
	}
	slices.SortFunc(m.Areas, func(a, b Area) int {
		switch {
		case a.Ours != b.Ours:
			return cmp.Compare(bit(a.Ours), bit(b.Ours)) // they are last
		case a.Touched != b.Touched:
			return cmp.Compare(b.Touched, a.Touched)
		}
		return strings.Compare(a.Name, b.Name)
	})
}

func bit(is bool) int {
	if is {
		return 1
	}
	return 0
}

// put puts a band behind the others, or makes it one with the last.
func (m *Map) put(b *Band) {
	if b.Mapped+b.own == 0 && (len(b.Ranges) == 0 || b.Ours) { // what is touched of the shadow is no access
		return
	}
	if n := len(m.Bands); n > 0 && m.Bands[n-1].Name == b.Name && m.Bands[n-1].Ours == b.Ours {
		last := &m.Bands[n-1]
		last.End, last.Mapped, last.resident, last.own, last.Ranges = b.End, last.Mapped+b.Mapped, last.resident+b.resident, last.own+b.own, append(last.Ranges, b.Ranges...)
		return
	}
	m.Bands = append(m.Bands, *b)
}

// NameOf is what an area is called with what /proc/PID/maps says is mapped there.
func NameOf(m *heat.Mapping) string {
	switch {
	case m.Path == "":
		return anonymous
	case m.IsShared():
		return shared
	}
	return symname.Clean(m.Path)
}

func (s *Sums) add(t *Sums) {
	s.Mapped += t.Mapped
	s.Resident += t.Resident
	s.Touched += t.Touched
	s.Read += t.Read
	s.Written += t.Written
	s.Executed += t.Executed
	s.Lines += t.Lines
}

// Settle is what slices say of pages, as it is settled which were executed.
func Settle(pages, executed []heat.Range) []heat.Range { return only(pages, executed) }
