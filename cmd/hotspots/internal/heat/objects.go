package heat

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Objects is what was done with each data object of a program, by the granules that were noted.
type Objects struct {
	Program   string     `json:"program"`
	Granule   uint64     `json:"granule"` // bytes: granules are of so many
	After     uint64     `json:"from,omitempty"`
	Before    uint64     `json:"to,omitempty"`
	Slices    int        `json:"slices"`
	Variables []Variable `json:"-"` // by address

	Allocs *Allocs `json:"-"` // nil: blocks were not noted, or a part of the time is shown

	noted heat.Granule
	show  Show
}

// Variable is one of an object's, and what was done with granules that have a byte of it: those that others
// have a byte of, too, are each one's.
type Variable struct {
	Name    string         `json:"name"`
	Memory  string         `json:"memory"` // the object's path
	Address report.Address `json:"address"`
	Bytes   uint64         `json:"bytes"`
	Used
	Constant bool `json:"-"` // it cannot be written
}

// Used is what was done with granules of something, at most.
type Used struct {
	Granules uint64 `json:"granules"` // that have a byte of it
	Touched  uint64 `json:"touched"`
	Read     uint64 `json:"read"`
	Written  uint64 `json:"written"`
	Unread   uint64 `json:"unread"` // that were written, and not read, and have no byte of another
	First    uint32 `json:"first"`  // slice in which any was read or written; 0: none was
	Last     uint32 `json:"last"`
}

// ObjectsOf are those of a table.
func ObjectsOf(t *table.Table, show Show) (*Objects, error) {
	f, err := File(t)
	if err != nil {
		return nil, err
	}
	o := &Objects{Program: symname.Clean(t.Program), Granule: f.Noted.Size(), After: show.After, Before: show.Before, Slices: f.Count, Variables: []Variable{}, noted: f.Noted, show: show}
	touched := f.In(f.Noted).WithinOf(show.part(), heat.WasRead|heat.WasWritten)
	symbols := SymbolsOf(t, show.Mangled)
	if !show.isPart() {
		if o.Allocs, err = allocsOf(t, f, symbols); err != nil {
			return nil, err
		}
	}
	for _, v := range symbols.Variables(0, math.MaxUint64) {
		one := Variable{Name: v.Name, Memory: symname.Clean(v.Memory), Address: report.Address(v.From), Bytes: v.To - v.From, Constant: v.Constant}
		one.use(touched, v.From, v.To, f.Noted)
		o.Variables = append(o.Variables, one)
	}
	return o, nil
}

// part is the time that is shown, of all memory.
func (s *Show) part() heat.Part {
	part := heat.All
	if part.After = s.After; s.Before > 0 {
		part.Before = s.Before
	}
	return part
}

// use adds what was done with granules that have a byte of [from, to), out of what was touched, by address.
func (u *Used) use(touched []heat.Range, from, to uint64, g heat.Granule) {
	first, end := from>>g, (to-1)>>g+1
	u.Granules += end - first
	i := sort.Search(len(touched), func(i int) bool { return touched[i].First+touched[i].Pages > first })
	for ; i < len(touched) && touched[i].First < end; i++ {
		r := touched[i].Clip(first, end)
		u.Touched += r.Pages
		if r.What&heat.WasRead != 0 {
			u.Read += r.Pages
		}
		if r.What&heat.WasWritten != 0 {
			u.Written += r.Pages
			if r.What&heat.WasRead == 0 {
				u.Unread += r.Clip((from+g.Size()-1)>>g, to>>g).Pages
			}
		}
		if u.First == 0 || r.Begin < u.First {
			u.First = r.Begin
		}
		u.Last = max(u.Last, r.End)
	}
}

// Variables are those that have a byte in some addresses, by address.
func (y *Symbols) Variables(from, to uint64) (list []Symbol) {
	y.eachVariable(from, to, func(o *layout.Object, v Symbol, name func() string) {
		v.Name, v.Memory = name(), o.Path
		list = append(list, v)
	})
	slices.SortStableFunc(list, func(a, b Symbol) int { return cmp.Compare(a.From, b.From) })
	return list
}

// variablesOf are those of an object, as its file has them.
func (y *Symbols) variablesOf(n int) []objcode.Variable {
	all, is := y.variables[n]
	if !is {
		all, _ = objcode.Variables(&y.Objects[n]) // what cannot be read has no names
		y.variables[n] = all
	}
	return all
}

// Text writes a line for each that was touched, and which ones were not.
func (o *Objects) Text(w io.Writer, style report.Style) error {
	var touched, untouched []*Variable
	var used, unused, read, written uint64
	for i := range o.Variables {
		v := &o.Variables[i]
		if v.Touched == 0 {
			untouched, unused = append(untouched, v), unused+v.Bytes
			continue
		}
		touched, used = append(touched, v), used+v.Bytes
		read, written = read+uint64(bit(v.Read > 0)), written+uint64(bit(v.Written > 0))
	}
	slices.SortStableFunc(touched, func(a, b *Variable) int { return cmp.Compare(b.Touched, a.Touched) })
	slices.SortStableFunc(untouched, func(a, b *Variable) int { return cmp.Compare(b.Bytes, a.Bytes) })
	if _, err := fmt.Fprintf(w, "%s: %s of %s touched%s, by %ss of %d bytes: %s read, %s written\n%s", o.Program, figures.Count(uint64(len(touched)), "variable"), figures.Count(used, "byte"), o.show.partText(),
		noun(o.noted), o.Granule, figures.Thousands(read), figures.Thousands(written), o.atMost()); err != nil {
		return err
	}
	var rows [][3]string
	for _, v := range touched {
		rows = append(rows, [3]string{figures.Thousands(v.Bytes) + "\t" + v.line(), filepath.Base(v.Memory), fmt.Sprintf("%s %s", v.Address, v.Name)})
	}
	if len(rows) > 0 {
		if err := report.Rows(w, style, [3]string{"BYTES\t" + o.heading(), "MEMORY", "VARIABLE"}, rows); err != nil {
			return err
		}
	}
	if len(untouched) > 0 {
		if _, err := fmt.Fprintf(w, "Not touched: %s of %s%s.\n", figures.Count(uint64(len(untouched)), "variable"), figures.Count(unused, "byte"), largest(untouched)); err != nil {
			return err
		}
	}
	if o.Allocs == nil {
		return nil
	}
	return o.Allocs.text(w, style, o)
}

// atMost says what granules that are larger than objects mean.
func (o *Objects) atMost() string {
	finer := "--heat=bytes notes 8 bytes at a time"
	if o.noted == heat.Word {
		finer = "these are the smallest"
	}
	return fmt.Sprintf("A %s that has bytes of several is each one's: what is touched of one is that at most (%s).\n", noun(o.noted), finer)
}

func granules(g heat.Granule) string { return strings.ToUpper(noun(g)) + "S" }

func (o *Objects) heading() string {
	return granules(o.noted) + "\tTOUCHED\tREAD\tWRITTEN\tFIRST\tLAST"
}

func (u *Used) line() string {
	return lineOf(u.Granules, u.Touched, u.Read, u.Written) + "\t" + sliceCell(u.First) + "\t" + sliceCell(u.Last)
}

func sliceCell(n uint32) string {
	if n == 0 {
		return "-"
	}
	return figures.Thousands(uint64(n))
}

// largest names the first of some.
func largest(list []*Variable) string {
	const most = 3
	var names []string
	for _, v := range list[:min(most, len(list))] {
		names = append(names, fmt.Sprintf("%s (%s)", v.Name, figures.Thousands(v.Bytes)))
	}
	text := ", " + strings.Join(names, ", ")
	if len(list) > most {
		text = ", the largest" + strings.TrimPrefix(text, ",")
	}
	return text
}

// JSON writes all.
func (o *Objects) JSON(w io.Writer) error {
	head := struct {
		Schema int `json:"schema"`
		*Objects
		Noted *heat.Allocs `json:"allocs"` // null: blocks were not noted
		Sites []Site       `json:"sites"`
	}{report.Schema, o, nil, []Site{}}
	if o.Allocs != nil {
		head.Noted, head.Sites = o.Allocs.Allocs, o.Allocs.Sites
	}
	return report.WriteJSON(w, head, "variables", o.Variables)
}

// CSV writes a line for each, and for each allocation site.
func (o *Objects) CSV(w io.Writer) error {
	rows := [][]string{{"object", "memory", "address", "bytes", "granules", "touched", "read", "written", "first", "last", "blocks", "peak", "live_bytes", "untouched_bytes"}}
	for i := range o.Variables {
		v := &o.Variables[i]
		rows = append(rows, append([]string{v.Name, v.Memory, v.Address.String(), strconv.FormatUint(v.Bytes, 10)}, append(v.cells(), "", "", "", "")...))
	}
	if o.Allocs != nil {
		for i := range o.Allocs.Sites {
			s := &o.Allocs.Sites[i]
			row := []string{s.String(), s.Memory, s.Back.String()}
			for _, n := range []uint64{s.Bytes, s.Granules, s.Touched, s.Read, s.Written} {
				row = append(row, strconv.FormatUint(n, 10))
			}
			row = append(row, "", "") // slices
			for _, n := range []uint64{s.Blocks, s.Peak, s.LiveBytes, s.Untouched} {
				row = append(row, strconv.FormatUint(n, 10))
			}
			rows = append(rows, row)
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

func (u *Used) cells() (cells []string) {
	for _, n := range []uint64{u.Granules, u.Touched, u.Read, u.Written, uint64(u.First), uint64(u.Last)} {
		cells = append(cells, strconv.FormatUint(n, 10))
	}
	return cells
}
