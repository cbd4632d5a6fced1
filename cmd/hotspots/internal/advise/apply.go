package advise

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sort"
	"strconv"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/trial"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	noted "github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Applied is what came of dead memory that was given back while the program ran once more, without being counted.
type Applied struct {
	Program  string `json:"program"`
	Same     bool   `json:"same"`             // its output and its status are those of the plain run; if they are not:
	Varies   bool   `json:"varies"`           // two plain runs have not the same either
	Status   int    `json:"status"`           // of the plain run
	Output   int64  `json:"output_bytes"`     // as well
	Plain    uint64 `json:"resident"`         // bytes at the end of the plain run,
	Resident uint64 `json:"resident_applied"` // and of the other
	Pages    uint64 `json:"pages"`            // that were to be given back: of these
	Given    uint64 `json:"pages_given"`      // were resident at the point, and not behind it,
	Again    uint64 `json:"pages_again"`      // and are there again at the end
	Point    Point  `json:"point"`            // where that was
	Left     []Left `json:"-"`                // what is dead, and was not tried
	Refused  string `json:"refused,omitempty"`

	PageSize int `json:"page_size"`
}

// Point is where a program comes to for the first time when memory is dead.
type Point struct {
	heat.Asker
	Runs  uint64  `json:"runs"`  // how often it comes there
	Share float64 `json:"share"` // of the instructions that had run when the memory was touched last, by the table
}

// Left is dead memory that was not given back.
type Left struct {
	Memory string `json:"memory"`
	Pages  uint64 `json:"pages"`
	Why    string `json:"why"`
}

// Reasons.
const (
	whyPlace = "where they are in another run is not known to the byte"
	whyLater = "they are dead later than most"
)

// Errors of Apply.
var (
	errNothing = errors.New("no memory is dead that lies at the same place of a heap, a block or an object in another run")
	errNoPoint = errors.New("no point was found that it comes to, and behind which none of that memory is touched")
)

// Apply runs the program again, twice or more: plain, and with memory given back that is dead by the table.
func Apply(t *table.Table, opt Options, argv []string) (*Applied, error) {
	_, flow, err := report.Flow(t)
	if err != nil {
		return nil, err
	}
	f, err := heat.File(t)
	if err != nil {
		return nil, err
	}
	if f.Source != "" {
		return nil, fmt.Errorf("what is known of its memory is of a log of %s, which does not say which objects are where: run it with --heat", f.Source)
	}
	m := heat.New(f, heat.Executed(t, flow, f), heat.Show{})
	p, err := planOf(t, f, dead(m, opt.Dead), m.Curve)
	if err != nil {
		return nil, err
	}
	if len(p.Dead) == 0 {
		return nil, errNothing
	}
	points := pointsOf(t, f, flow, p.last)
	for i := range points {
		p.Points = append(p.Points, spot(&t.Objects[points[i].object], points[i].at))
	}
	if err := p.isAsCounted(t); err != nil {
		return nil, err
	}
	plain, err := trial.Find(argv, &p.Plan)
	if err != nil {
		return nil, err
	}
	if plain.Point < 0 {
		return nil, fmt.Errorf("%s: %w", argv[0], errNoPoint)
	}
	with, err := trial.Apply(argv, &p.Plan, plain.Point)
	if err != nil {
		return nil, err
	}
	one := &points[plain.Point]
	point := Point{heat.SymbolsOf(t, false).Asker(one.at + 1), one.runs, float64(m.Curve[p.last-1].Instructions) / float64(m.Curve[len(m.Curve)-1].Instructions)}
	if !with.Came {
		return nil, fmt.Errorf("%s: it does not come to %s each time", argv[0], point.String())
	}
	a := &Applied{
		Program: symname.Clean(t.Program), Same: plain.Same(with), Status: plain.Status, Output: plain.Bytes, Plain: plain.Resident, Resident: with.Resident,
		Pages: with.Asked, Given: with.Given, Again: with.Again, Left: p.left, PageSize: noted.PageSize, Point: point,
	}
	if with.Denied != nil {
		a.Refused = with.Denied.Error()
	}
	if !a.Same {
		again, err := trial.Find(argv, &p.Plan)
		if err != nil {
			return nil, err
		}
		a.Varies = !plain.Same(again)
	}
	return a, nil
}

// place is the beginning of a block of instructions.
type place struct {
	object uint16
	at     uint64 // run address
	runs   uint64
	slice  uint32 // that it ran in first, or may have
	apart  int    // 1: it is a library's
}

// pointsOf are blocks that run once, and may do so from a slice on, or more often, and not before it; some of them,
// the program's own first. What is seen of a slice is looked at one after the other, and of code by granules, so
// that slices in front of it count as well. A trial finds out where memory is dead.
func pointsOf(t *table.Table, f *noted.File, flow *table.Flow, from uint32) (list []place) {
	const most, some = 200, 3
	executed := f.In(f.Noted).WithinOf(noted.All, noted.WasExecuted)
	for i := range flow.Blocks {
		b := &flow.Blocks[i]
		object := t.Functions[b.Function].Object
		at := t.Objects[object].Bias + b.Address
		n := sort.Search(len(executed), func(n int) bool { return executed[n].First+executed[n].Pages > at>>f.Noted })
		if b.Runs == 0 || n == len(executed) || executed[n].First > at>>f.Noted {
			continue
		}
		if r := &executed[n]; r.Begin+some >= from || b.Runs == 1 && r.End+some >= from {
			one := place{object: object, at: at, runs: b.Runs, slice: max(r.Begin, from)}
			if t.Objects[object].Path != t.Program {
				one.apart = 1
			}
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.apart, b.apart), cmp.Compare(a.slice, b.slice), cmp.Compare(a.runs, b.runs))
	})
	return list[:min(most, len(list))]
}

// spot is an address of an object, wherever this is in another run.
func spot(o *layout.Object, at uint64) trial.Spot {
	return trial.Spot{Object: o.Path, Offset: at - o.Low&^(noted.PageSize-1)}
}

// plan is a trial's, with what is left out of it.
type plan struct {
	trial.Plan
	last uint32 // slice in which any of the memory was touched
	left []Left
}

// isAsCounted looks whether the files of its objects are those that were counted.
func (p *plan) isAsCounted(t *table.Table) error {
	in := map[string]bool{}
	for _, d := range p.Dead {
		in[d.Object] = true
	}
	for _, s := range p.Points {
		in[s.Object] = true
	}
	for i := range t.Objects {
		if in[t.Objects[i].Path] {
			if _, err := objcode.Load(&t.Objects[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// planOf is what of dead memory is at the same place in another run: data of objects; the heap, where all is seen, but
// for the first and the last of pages that are next to each other, as blocks may be somewhat elsewhere; and, with
// --allocs, blocks of which a call asks for one in all.
func planOf(t *table.Table, f *noted.File, areas []Dead, curve []heat.Point) (*plan, error) {
	singles, err := singlesOf(t)
	if err != nil {
		return nil, err
	}
	p := &plan{Plan: trial.Plan{Program: t.Program}, last: when(areas, curve), left: []Left{}}
	for _, d := range areas {
		var some []noted.Range
		var soon, placed uint64
		for _, r := range d.ranges {
			if r.End <= p.last {
				some, soon = append(some, r), soon+r.Pages
			}
		}
		for _, r := range noted.Flat(some) {
			list, n := p.place(t, f, d.Memory, r, singles)
			p.Dead, placed = append(p.Dead, list...), placed+n
		}
		if placed < soon {
			p.left = append(p.left, Left{d.Memory, soon - placed, whyPlace})
		}
		if soon < d.Pages {
			p.left = append(p.left, Left{d.Memory, d.Pages - soon, whyLater})
		}
	}
	return p, nil
}

// when is the slice behind which most is to be had by giving memory back that is dead by then: pages, by the
// instructions that are left.
func when(areas []Dead, curve []heat.Point) (best uint32) {
	dead := make([]uint64, len(curve)+1)
	for _, d := range areas {
		for _, r := range d.ranges {
			dead[r.End] += r.Pages
		}
	}
	most, pages := 0.0, uint64(0)
	for i := range curve {
		pages += dead[i+1]
		if gain := float64(pages) * float64(curve[len(curve)-1].Instructions-curve[i].Instructions); gain > most {
			most, best = gain, uint32(i+1)
		}
	}
	return best
}

// place is where pages of an area are in another run, and how many of them.
func (p *plan) place(t *table.Table, f *noted.File, area string, r noted.Range, singles []single) (list []trial.Dead, pages uint64) {
	from, to := r.First*noted.PageSize, (r.First+r.Pages)*noted.PageSize
	for i := range t.Objects {
		if o := &t.Objects[i]; symname.Clean(o.Path) == area && from >= o.Low&^(noted.PageSize-1) && from < o.High {
			return []trial.Dead{{Object: o.Path, Offset: from - o.Low&^(noted.PageSize-1), Bytes: to - from}}, r.Pages
		}
	}
	if start, is := heapOf(f); is && area == heap {
		if len(unseen(t)) > 0 || r.Pages <= 2 {
			return nil, 0
		}
		return []trial.Dead{{Offset: from + noted.PageSize - start, Bytes: to - from - 2*noted.PageSize}}, r.Pages - 2
	}
	for i := range singles {
		b := &singles[i]
		low, high := max(from, b.Address), min(to, b.Address+b.Bytes)
		first, end := (low+noted.PageSize-1)/noted.PageSize, high/noted.PageSize
		if first < end {
			list = append(list, trial.Dead{Block: &b.back, Offset: low - b.Address, Bytes: high - low})
			pages += end - first
		}
	}
	return list, pages
}

// heap is what heat calls it.
const heap = "[heap]"

func heapOf(f *noted.File) (uint64, bool) {
	for i := range f.Mappings {
		if m := &f.Mappings[i]; m.Path == heap && !m.Gone {
			return m.Start, true
		}
	}
	return 0, false
}

// single is a block of which a call asks for one in all.
type single struct {
	noted.Block
	back trial.Spot
}

func singlesOf(t *table.Table) (list []single, err error) {
	all, err := noted.ReadAllocs(t.Path(), t.Nonce)
	if errors.Is(err, noted.ErrNoAllocs) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, b := range all.Blocks {
		c := &all.Callers[b.Caller]
		for i := range t.Objects {
			if o := &t.Objects[i]; b.Live && c.Blocks == 1 && c.Back > o.Low && c.Back < o.High {
				list = append(list, single{b, spot(o, c.Back)})
			}
		}
	}
	return list, nil
}

// Text says what came of it.
func (a *Applied) Text(w io.Writer, style report.Style) error {
	says := "the same output"
	switch {
	case a.Varies:
		says = "another output, as two plain runs have, so that nothing is shown"
	case !a.Same:
		says = "ANOTHER OUTPUT: that memory is not dead"
	}
	less := "as much"
	switch {
	case a.Resident < a.Plain:
		less = kilobytes(a.Plain-a.Resident) + " less"
	case a.Resident > a.Plain:
		less = kilobytes(a.Resident-a.Plain) + " more"
	}
	_, err := fmt.Fprintf(w, "%s: applied: %s (%s, status %d); resident at the end %s → %s: %s (predicted: %s)\n",
		a.Program, style.Bold(says), figures.Count(uint64(a.Output), "byte"), a.Status, figures.Thousands(a.Plain>>10), kilobytes(a.Resident), less, kilobytes(a.Pages*uint64(a.PageSize)))
	if err != nil {
		return err
	}
	times := "to which it comes once"
	if a.Point.Runs > 1 {
		times = fmt.Sprintf("the first of %s that it comes there", figures.Count(a.Point.Runs, "time"))
	}
	text := fmt.Sprintf("  where  %s, %s; by the table behind %.3g %% of the instructions\n", a.Point.String(), times, 100*a.Point.Share)
	text += fmt.Sprintf("  what   %s, %s of them in memory then; %s there again at the end\n", figures.Count(a.Pages, "page"), figures.Thousands(a.Given), figures.Thousands(a.Again))
	if a.Refused != "" {
		text += "  but    some were refused: " + a.Refused + "\n"
	}
	for _, l := range a.Left {
		text += fmt.Sprintf("  not    %s of %s: %s\n", figures.Count(l.Pages, "page"), filepath.Base(l.Memory), l.Why)
	}
	_, err = io.WriteString(w, text)
	return err
}

func kilobytes(n uint64) string { return figures.Thousands(n>>10) + " KB" }

// JSON writes it.
func (a *Applied) JSON(w io.Writer) error {
	return report.WriteJSON(w, struct {
		Schema int `json:"schema"`
		*Applied
	}{report.Schema, a}, "left", a.Left)
}

// CSV writes it as a line.
func (a *Applied) CSV(w io.Writer) error {
	row := []string{strconv.FormatBool(a.Same), strconv.FormatBool(a.Varies), strconv.Itoa(a.Status)}
	for _, n := range []uint64{a.Plain, a.Resident, a.Pages, a.Given, a.Again} {
		row = append(row, strconv.FormatUint(n, 10))
	}
	return csv.NewWriter(w).WriteAll([][]string{
		{"same", "varies", "status", "resident", "resident_applied", "pages", "pages_given", "pages_again", "point"},
		append(row, a.Point.String()),
	})
}
