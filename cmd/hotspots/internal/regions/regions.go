// Package regions shows which accesses to chosen memory a program has made.
package regions

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/regions"
)

// List is the regions of a program, and what was done with them.
type List struct {
	Program string        `json:"program"`
	Total   regions.Total `json:"total"`
	Start   uint64        `json:"start_ns"` // CLOCK_MONOTONIC at the start, where times were noted; else 0
	Unseen  heat.Unseen   `json:"unseen"`
	Audit   *Audit        `json:"audit"` // nil: there was none
	Marks   []*Mark       `json:"marks"` // in their order
	Regions []*Region     `json:"-"`

	places *places
}

// Region is memory whose accesses were recorded.
type Region struct {
	Number       uint64         `json:"number"`
	Name         string         `json:"name"` // empty if it has none
	Address      report.Address `json:"address"`
	Bytes        uint64         `json:"bytes"`
	Accesses     uint64         `json:"accesses"`
	Loads        uint64         `json:"loads"`  // accesses that read,
	Stores       uint64         `json:"stores"` // and that write; some do both
	Atomic       uint64         `json:"atomic"` // of all
	Threads      []uint32       `json:"threads"`
	ByThread     []*Thread      `json:"by_thread"` // what each has done, most first
	First        uint64         `json:"first"`     // number of the first access, of all regions, from 1; 0: there was none
	Last         uint64         `json:"last"`
	FirstTime    *uint64        `json:"first_ns"` // when they were, since the start; nil: it is not known
	LastTime     *uint64        `json:"last_ns"`
	Removed      bool           `json:"removed"`
	Kinds        string         `json:"kinds"` // that are recorded: all, load, store
	Asked        *regions.Asked `json:"asked"` // of an allocation site: its address and bytes are 0; else null
	Functions    []*Function    `json:"functions"`
	Instructions []*Instruction `json:"instructions"`

	by map[of]uint64 // accesses
}

// Mark is what stands between accesses.
type Mark struct {
	Behind uint64  `json:"behind"` // number of the access in front of it, of all regions; 0: none
	Kind   string  `json:"kind"`   // mark: the program has put it there; window: recording had been off
	Name   string  `json:"name"`
	Value  uint64  `json:"value"`  // of a window: how often recording has gone on
	Thread uint32  `json:"thread"` // that has put it there, or was the first to be recorded
	Time   *uint64 `json:"ns"`     // since the start; nil: it is not known
}

// Kinds of marks.
const mark, window = "mark", "window"

// marks follows the records of a file.
type marks struct {
	names  map[uint32]string
	window uint64
	clock  regions.Clock
	tsc    uint64  // the latest that was noted,
	now    *uint64 // and when that is; nil: it is not known
}

func marksOf(f *regions.File) marks { return marks{names: f.Names, clock: f.Total.Clock} }

// of is what an event stands for; nil: nothing that is not known.
func (m *marks) of(e *regions.Event) *Mark {
	switch e.Kind {
	case regions.Time:
		if e.Value > m.tsc { // else another thread was earlier
			m.tsc = e.Value
			if ns, ok := m.clock.Since(e.Value); ok {
				m.now = &ns
			}
		}
	case regions.Mark:
		return &Mark{Time: m.now, Kind: mark, Name: symname.Clean(m.names[e.Argument]), Value: e.Value, Thread: e.Thread}
	case regions.Window:
		if e.Value <= m.window { // several threads have come at once
			return nil
		}
		m.window = e.Value
		return &Mark{Time: m.now, Kind: window, Value: e.Value, Thread: e.Thread}
	}
	return nil
}

// of is who has made accesses.
type of struct{ thread, site uint32 }

// Thread is what one has done.
type Thread struct {
	Thread uint32 `json:"thread"`
	Name   string `json:"name"` // empty: it is not known
	Counts
}

// Counts are numbers of accesses.
type Counts struct {
	Accesses uint64 `json:"accesses"`
	Loads    uint64 `json:"loads"`
	Stores   uint64 `json:"stores"`
}

// Function is what one has done.
type Function struct {
	Function string `json:"function"`
	Object   string `json:"object"`
	Counts
}

// Instruction is what an operand of one has done.
type Instruction struct {
	Address  report.Address `json:"address"` // in its object's file
	Function string         `json:"function"`
	Object   string         `json:"object"`
	Size     uint32         `json:"size"` // bytes of an access
	Kind     string         `json:"kind"` // load, store, both
	Atomic   bool           `json:"atomic"`
	Counts
	Code string `json:"code"` // as text; empty if the file is not there any more
}

// Of is the list of a table.
func Of(t *table.Table, mangled bool) (*List, error) {
	f, err := File(t)
	if err != nil {
		return nil, err
	}
	s, flow, err := report.Flow(t)
	if err != nil {
		return nil, err
	}
	l := &List{Program: symname.Clean(t.Program), Total: f.Total, Unseen: heat.UnseenOf(t, s, flow), Marks: []*Mark{}, Regions: []*Region{}, places: newPlaces(t, mangled)}
	l.Start, l.Total.Clock = f.Total.Clock.FromNS, regions.Clock{}
	l.Total.Names = nil // they are beside what their threads have done
	if !f.Total.Ended {
		l.Total.Records = f.Records
	}
	l.audit(f.Audit, t, flow)
	return l, l.add(f)
}

// File is what is beside the table, or an error that says what to do.
func File(t *table.Table) (*regions.File, error) {
	f, err := regions.Read(t.Path(), t.Nonce)
	if errors.Is(err, regions.ErrNone) {
		err = fmt.Errorf("%s: %w: run the program with hotspots run --regions, or --region", t.Path(), err)
	}
	return f, err
}

func (l *List) add(f *regions.File) error {
	byNumber := map[uint32]*Region{}
	for i := range f.Regions {
		g := &f.Regions[i]
		r := &Region{Number: g.Number, Name: symname.Clean(g.Name), Address: report.Address(g.Address), Bytes: g.Bytes, Removed: g.Removed, Kinds: g.Kinds.String(), Asked: g.Asked,
			Threads: []uint32{}, ByThread: []*Thread{}, Functions: []*Function{}, Instructions: []*Instruction{}, by: map[of]uint64{}}
		byNumber[uint32(g.Number)] = r
		l.Regions = append(l.Regions, r)
	}
	n := uint64(0)
	between := marksOf(f)
	err := f.Walk(func(a *regions.Access) {
		n++
		if r := byNumber[a.Region]; r != nil {
			r.by[of{a.Thread, a.Site}]++
			r.LastTime = between.now
			if r.Last = n; r.First == 0 {
				r.First, r.FirstTime = n, between.now
			}
		}
	}, func(e *regions.Event) {
		if m := between.of(e); m != nil {
			m.Behind = n
			l.Marks = append(l.Marks, m)
		}
	})
	for _, r := range l.Regions {
		l.settle(r, f)
	}
	return err
}

// countsOf are those of so many accesses.
func countsOf(s *regions.Site, n uint64) Counts {
	c := Counts{Accesses: n}
	if s.Load {
		c.Loads = n
	}
	if s.Store {
		c.Stores = n
	}
	return c
}

// settleThreads counts by thread, and returns accesses by site.
func (r *Region) settleThreads(f *regions.File) map[uint32]uint64 {
	threads, sites := map[uint32]*Thread{}, map[uint32]uint64{}
	for by, n := range r.by {
		t := threads[by.thread]
		if t == nil {
			t = &Thread{Thread: by.thread, Name: symname.Clean(f.Total.Names[by.thread])}
			threads[by.thread] = t
			r.ByThread = append(r.ByThread, t)
			r.Threads = append(r.Threads, by.thread)
		}
		site := f.Sites[by.site]
		c := countsOf(&site, n)
		t.add(&c)
		sites[by.site] += n
	}
	slices.Sort(r.Threads)
	slices.SortFunc(r.ByThread, func(a, b *Thread) int {
		return cmp.Or(cmp.Compare(b.Accesses, a.Accesses), cmp.Compare(a.Thread, b.Thread))
	})
	return sites
}

// settle counts by thread, instruction and function.
func (l *List) settle(r *Region, file *regions.File) {
	functions := map[[2]string]*Function{}
	for number, n := range r.settleThreads(file) {
		site := file.Sites[number]
		c := countsOf(&site, n)
		if site.Atomic {
			r.Atomic += n
		}
		p := l.places.of(site.Address)
		r.Instructions = append(r.Instructions, &Instruction{report.Address(p.address), p.function, p.object, site.Size, kindOf(&site), site.Atomic, c, p.code})
		key := [2]string{p.object, p.function}
		f := functions[key]
		if f == nil {
			f = &Function{Function: p.function, Object: p.object}
			functions[key] = f
			r.Functions = append(r.Functions, f)
		}
		f.add(&c)
		r.Accesses, r.Loads, r.Stores = r.Accesses+n, r.Loads+c.Loads, r.Stores+c.Stores
	}
	slices.SortFunc(r.Functions, func(a, b *Function) int {
		return cmp.Or(cmp.Compare(b.Accesses, a.Accesses), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Object, b.Object))
	})
	slices.SortFunc(r.Instructions, func(a, b *Instruction) int {
		return cmp.Or(cmp.Compare(b.Accesses, a.Accesses), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Kind, b.Kind))
	})
}

func (c *Counts) add(b *Counts) {
	c.Accesses, c.Loads, c.Stores = c.Accesses+b.Accesses, c.Loads+b.Loads, c.Stores+b.Stores
}

func kindOf(s *regions.Site) string {
	switch {
	case s.Load && s.Store:
		return "both"
	case s.Store:
		return "store"
	}
	return "load"
}

// JSON writes all.
func (l *List) JSON(w io.Writer) error {
	return report.WriteJSON(w, struct {
		Schema int `json:"schema"`
		*List
	}{report.Schema, l}, "regions", l.Regions)
}

// CSV writes a line for each instruction of each region.
func (l *List) CSV(w io.Writer) error {
	rows := [][]string{{"region", "name", "address", "bytes", "object", "function", "instruction", "size", "kind", "atomic", "accesses", "loads", "stores"}}
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for _, r := range l.Regions {
		for _, i := range r.Instructions {
			rows = append(rows, []string{number(r.Number), r.Name, r.Address.String(), number(r.Bytes), i.Object, i.Function, i.Address.String(),
				number(uint64(i.Size)), i.Kind, strconv.FormatBool(i.Atomic), number(i.Accesses), number(i.Loads), number(i.Stores)})
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// Text writes it for people.
func (l *List) Text(w io.Writer, style report.Style) error {
	const most = 10
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s: %s of %s\n", l.Program, figures.Count(l.Total.Records, "access"), figures.Count(uint64(len(l.Regions)), "region"))
	for _, r := range l.Regions {
		name := r.Name
		if name == "" {
			name = fmt.Sprintf("region %d", r.Number)
		}
		fmt.Fprintf(out, "\n%s  %s: %s, %s, by %s\n", style.Bold(name), r.place(),
			figures.Count(r.Loads, "load"), figures.Count(r.Stores, "store"), figures.Count(uint64(len(r.Threads)), "thread"))
		r.left(out, style)
		if len(r.ByThread) > 1 {
			for i, t := range r.ByThread {
				if i == most {
					fmt.Fprintf(out, "  and %s\n", figures.Count(uint64(len(r.ByThread)-most), "thread"))
					break
				}
				fmt.Fprintf(out, "  %s  thread %s\n", t.columns(), strings.TrimSpace(fmt.Sprintf("%d %s", t.Thread, t.Name)))
			}
		}
		for i, f := range r.Functions {
			if i == most {
				fmt.Fprintf(out, "  and %s\n", figures.Count(uint64(len(r.Functions)-most), "function"))
				break
			}
			fmt.Fprintf(out, "  %s  %s\n", f.columns(), f.Function)
		}
		for i, in := range r.Instructions {
			if i == most {
				fmt.Fprintf(out, "  and %s\n", figures.Count(uint64(len(r.Instructions)-most), "instruction"))
				break
			}
			fmt.Fprintf(out, "  %14s %-5s  %s  %s\n", figures.Thousands(in.Accesses), in.Kind, in.Address, strings.TrimSpace(in.Code+"  in "+in.Function))
		}
	}
	l.marksText(out, style)
	fmt.Fprintf(out, "\nNot seen: %s.\n", l.Unseen.Text())
	if t := &l.Total; t.Waits > 0 {
		fmt.Fprintf(out, "The ring was full %s: threads have waited %s.\n", figures.Count(t.Waits, "time"), figures.Nanoseconds(float64(t.Waited)))
	}
	if l.Total.Lost > 0 {
		fmt.Fprintf(out, "%s not recorded: nobody took records, or they could not be written.\n", style.Red(were(l.Total.Lost)))
	}
	if l.Total.Untold > 0 {
		fmt.Fprintf(out, "%s not recorded: there were too many instructions.\n", style.Red(were(l.Total.Untold)))
	}
	if n := l.Total.Unmade; n > 0 {
		fmt.Fprintf(out, "%s not recorded of: there were more regions than there may be at a time, or it is too large (docs/limits.md).\n", style.Red(figures.Count(n, "mapping")+" of files"))
	}
	if l.Audit != nil {
		l.Audit.text(out, style)
	}
	if !l.Total.Ended {
		fmt.Fprint(out, "The program has not ended, or hotspots run was killed: these are the accesses so far.\n")
	}
	return out.Flush()
}

// marksText lists marks, each with the accesses that are in front of it.
func (l *List) marksText(out io.Writer, style report.Style) {
	const most = 100
	if len(l.Marks) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s, behind so many accesses:\n", style.Bold("Marks"))
	for i, m := range l.Marks {
		if i == most {
			fmt.Fprintf(out, "  and %s\n", figures.Count(uint64(len(l.Marks)-most), "mark"))
			break
		}
		what := fmt.Sprintf("%s  %d", m.Name, m.Value)
		if m.Kind == window {
			what = fmt.Sprintf("window %d: recording had been off", m.Value)
		}
		at := ""
		if m.Time != nil {
			at = "  at " + figures.Nanoseconds(float64(*m.Time))
		}
		fmt.Fprintf(out, "%20s  %s  thread %d%s\n", figures.Thousands(m.Behind), what, m.Thread, at)
	}
}

// were begins a sentence of so many accesses.
func were(n uint64) string {
	if n == 1 {
		return "1 access was"
	}
	return figures.Count(n, "access") + " were"
}

// columns are both counts, one below the other.
func (c *Counts) columns() string {
	column := func(n uint64, what string) string {
		text := figures.Count(n, what)
		if n == 1 {
			text += " " // in place of the s
		}
		return text
	}
	return fmt.Sprintf("%20s  %21s", column(c.Loads, "load"), column(c.Stores, "store"))
}

// place is where it is, or, of an allocation site, how much was asked for.
func (r *Region) place() string {
	only := ""
	if r.Kinds != regions.All.String() {
		only = ", of " + r.Kinds + "s only"
	}
	if r.Asked == nil {
		return fmt.Sprintf("%s, %s%s", r.Address, figures.Count(r.Bytes, "byte"), only)
	}
	return fmt.Sprintf("%s, %s at a time, %s at most"+only, figures.Count(r.Asked.Blocks, "block"), figures.Thousands(r.Asked.Most), figures.Count(r.Asked.Peak, "byte"))
}

// left says what of an allocation site is not recorded.
func (r *Region) left(out io.Writer, style report.Style) {
	if r.Asked != nil && r.Asked.Unheld > 0 {
		fmt.Fprintf(out, "  %s not followed: there were too many at a time, or they were too large.\n", style.Red(figures.Count(r.Asked.Unheld, "block")+" of them"))
	}
	if r.Asked != nil && r.Asked.Unled > 0 {
		fmt.Fprintf(out, "  %s: a library was loaded too often, or has functions that could not be changed.\n", style.Red("Blocks of "+figures.Count(r.Asked.Unled, "piece")+" of code are not seen"))
	}
}
