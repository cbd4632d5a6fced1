// Package advise says how a program could do with less memory, by what it has touched and
// executed, and how much less; each figure is obtained again in another way.
package advise

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/callgraph"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	noted "github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// List is the advice for a program, what saves most first.
type List struct {
	Program  string   `json:"program"`
	PageSize int      `json:"page_size"`
	Heat     bool     `json:"heat"`    // touched pages were noted; else there is advice on the order of functions only
	Overlay  []Place  `json:"overlay"` // which pages could have the same memory
	Hidden   []Hidden `json:"hidden"`  // resident memory of which nothing can be said
	Advice   []Advice `json:"-"`
	orders   []*Order
	source   string // the tool whose log it is by; empty: the table counts blocks
}

// Advice is one piece of it.
type Advice struct {
	Kind     string `json:"kind"`
	Memory   string `json:"memory"`          // an object, or what heat calls an area; all for overlay
	Name     string `json:"name,omitempty"`  // of a variable of it, or who asks for blocks
	Bytes    uint64 `json:"bytes,omitempty"` // that it saves, of these
	Pages    uint64 `json:"pages"`           // that it saves
	AtMost   uint64 `json:"pages_at_most"`   // that it may save, if slices of time hide more
	Before   uint64 `json:"before"`          // pages in use
	After    uint64 `json:"after"`
	Evidence string `json:"evidence"`
	Proof    string `json:"proof"` // how the figure was obtained again
	Do       string `json:"do"`

	Confidence string `json:"confidence,omitempty"`
}

// How sure it is that what is not seen has not touched something.
const (
	confident = "high"
	doubtful  = "low"
)

// Hidden is memory of which what is seen has touched less than is resident, where there are
// objects that are not seen: who has touched the others is not known.
type Hidden struct {
	Memory  string   `json:"memory"`
	Pages   uint64   `json:"pages"`           // resident, not touched by what is seen
	Bytes   uint64   `json:"bytes,omitempty"` // likewise, of variables and blocks, resident or not
	Objects []string `json:"objects"`         // that are not seen
}

// Kinds.
const (
	kindOrder     = "order"
	kindOverlay   = "overlay"
	kindDead      = "dead"
	kindUntouched = "untouched"
)

// Options say what is looked for.
type Options struct {
	Dead float64 // share of the instructions behind which pages are dead that are not touched any more
}

// Of is the advice for a table's program, which has to count blocks.
func Of(t *table.Table, opt Options) (*List, error) {
	f, err := heat.File(t)
	if err != nil && !errors.Is(err, noted.ErrNone) {
		return nil, err
	}
	l := &List{Program: symname.Clean(t.Program), PageSize: noted.PageSize, Heat: err == nil, Advice: []Advice{}, Overlay: []Place{}, Hidden: []Hidden{}}
	s, flow, err := heat.FlowOf(t, f)
	if err != nil {
		return nil, err
	}
	if flow == nil {
		l.source = f.Source
	} else {
		g, err := callgraph.New(t.Objects, t.Functions, s.Calls, flow, callgraph.FilesOf(t))
		if err != nil {
			return nil, err
		}
		for i := range t.Objects {
			if o := orderOf(t, s.Calls, flow, g, i); o.Ran > 0 {
				l.orders = append(l.orders, o)
				l.order(o)
			}
		}
	}
	if l.Heat {
		m := heat.New(f, heat.Executed(t, flow, f), heat.Show{})
		l.overlay(m)
		l.dead(m, opt.Dead, unseen(t))
		l.untouched(f, unseen(t))
		if flow != nil { // else variables are not known
			if err := l.idle(t, f, flow, s.Calls, unseen(t)); err != nil {
				return nil, err
			}
		}
	}
	for i := range l.Advice {
		l.Advice[i].AtMost = max(l.Advice[i].AtMost, l.Advice[i].Pages)
	}
	slices.SortStableFunc(l.Advice, func(a, b Advice) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(b.Bytes, a.Bytes))
	})
	return l, nil
}

// Order is that of one object: the program's, or the only one whose path, or the end of it,
// is the name.
func (l *List) Order(name string) (*Order, error) {
	var found []*Order
	for _, o := range l.orders {
		path := symname.Clean(o.Object)
		if name == "" && path == l.Program || name != "" && (path == name || filepath.Base(path) == name) {
			found = append(found, o)
		}
	}
	switch {
	case l.source != "":
		return nil, fmt.Errorf("%s: a log of %s tells of no functions", l.Program, l.source)
	case len(found) == 1 && len(found[0].Names) > 0:
		return found[0], nil
	case len(found) == 1:
		return nil, fmt.Errorf("%s: none of its functions that ran has a name: build it without stripping", symname.Clean(found[0].Object))
	case len(found) > 1:
		return nil, fmt.Errorf("%s: several objects have that name: give its whole path", name)
	case name == "":
		return nil, fmt.Errorf("no function of %s ran: --object says which object's order", l.Program)
	}
	return nil, fmt.Errorf("%s: no function of such an object ran", name)
}

func (l *List) order(o *Order) {
	if o.After >= o.Before {
		return
	}
	a := Advice{
		Kind: kindOrder, Memory: symname.Clean(o.Object), Pages: o.Before - o.After, Before: o.Before, After: o.After,
		Evidence: fmt.Sprintf("%s of %s ran, on %s; next to each other they take %s", figures.Thousands(uint64(o.Ran)), figures.Count(uint64(o.Functions), "function"),
			figures.Count(o.Before, "page"), figures.Thousands(o.After)),
		Proof: "blocks that ran, laid out anew",
		Do:    "compile it with -ffunction-sections, link it with what --order writes",
	}
	if o.Unnamed > 0 {
		a.Evidence += fmt.Sprintf("; %s without a name stay", figures.Thousands(uint64(o.Unnamed)))
	}
	l.Advice = append(l.Advice, a)
}

func (l *List) overlay(m *heat.Map) {
	o := overlay(m)
	if o.Least >= o.Used {
		return
	}
	l.Overlay = o.Places
	proof := fmt.Sprintf("replayed: in %s each page found what it had", figures.Count(uint64(len(m.Curve)), "slice"))
	if err := o.replay(m); err != nil {
		proof = "not replayed: " + err.Error()
	}
	evidence := fmt.Sprintf("%s were written, of which at most %s were between their first and their last touch at a time, in slice %d of %d", figures.Count(o.Used, "page"), figures.Thousands(o.Frames), o.At, len(m.Curve))
	if o.Least < o.Frames {
		evidence += fmt.Sprintf("; of pages that end in the slice in which others begin it is not known which was first: it may be %s", figures.Thousands(o.Least))
	}
	l.Advice = append(l.Advice, Advice{
		Kind: kindOverlay, Memory: "all", Pages: o.Used - o.Frames, AtMost: o.Used - o.Least, Before: o.Used, After: o.Frames, Proof: proof,
		Evidence: evidence,
		Do:       "let what is not used at the same time have the same memory: --format json says which pages",
	})
}

func (l *List) dead(m *heat.Map, share float64, unseen []string) {
	but := ""
	if len(unseen) > 0 {
		but = fmt.Sprintf(", by what is seen; not seen is %s", some(unseen))
	}
	for _, d := range dead(m, share) {
		l.Advice = append(l.Advice, Advice{
			Kind: kindDead, Memory: d.Memory, Pages: d.Pages, Before: d.Pages,
			Evidence: fmt.Sprintf("%s, written, not touched any more when %.3g %% of the instructions had run%s", figures.Count(d.Pages, "page"), 100*share, but),
			Proof:    "no later slice has them",
			Do:       "free them, or madvise(MADV_DONTNEED), when they have been used: --apply says where, and tries it",
		})
	}
}

// unseen are the objects whose accesses are not noted.
func unseen(t *table.Table) (names []string) {
	for i := range t.Objects {
		if o := &t.Objects[i]; o.Reason != ledger.ReasonNone || o.Flags&(layout.ObjByCall|layout.ObjGo) != 0 {
			names = append(names, filepath.Base(symname.Clean(o.Path)))
		}
	}
	if t.Header.Unlisted.Anonymous > 0 {
		names = append(names, "code made at run time")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// untouched advises on what nobody has touched. What is not seen may have touched anything.
func (l *List) untouched(f *noted.File, unseen []string) {
	for _, u := range untouched(f) {
		if len(unseen) > 0 {
			l.Hidden = append(l.Hidden, Hidden{Memory: u.Memory, Pages: u.Resident - u.Touched, Objects: unseen})
			continue
		}
		l.Advice = append(l.Advice, Advice{
			Kind: kindUntouched, Memory: u.Memory, Pages: u.Resident - u.Touched, Before: u.Resident, After: u.Touched,
			Evidence: fmt.Sprintf("%s resident at the end, of which code has touched no more than %s: the others are filled by the kernel alone, as by read, or parts of huge pages", figures.Count(u.Resident, "page"), figures.Thousands(u.Touched)),
			Proof:    "/proc/PID/smaps at the end",
			Do:       "ask for less, or later; madvise(MADV_NOHUGEPAGE)",
		})
	}
}

// Text writes each advice with what it is from, how that was found again, and what to do.
func (l *List) Text(w io.Writer, style report.Style) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s: %s of advice; pages have %d bytes\n", l.Program, figures.Count(uint64(len(l.Advice)), "piece"), l.PageSize)
	for i := range l.Advice {
		a := &l.Advice[i]
		less := figures.Count(a.Pages, "page")
		if a.AtMost > a.Pages {
			less = figures.Thousands(a.Pages) + " to " + figures.Count(a.AtMost, "page")
		}
		if a.Bytes > 0 {
			fmt.Fprintf(out, "\n%s  %s, %s of %s: %s in place of %s\n", style.Bold(figures.Count(a.Bytes, "byte")+" less, "+less), a.Kind, a.Name, filepath.Base(a.Memory), figures.Thousands(a.After), figures.Thousands(a.Before))
		} else {
			fmt.Fprintf(out, "\n%s  %s, %s: %s in place of %s\n", style.Bold(less+" less"), a.Kind, a.name(), figures.Thousands(a.After), figures.Thousands(a.Before))
		}
		fmt.Fprintf(out, "  why    %s\n", a.Evidence)
		if a.Confidence == doubtful {
			fmt.Fprint(out, "  sure   no: where these have touched memory is not known\n")
		}
		fmt.Fprintf(out, "  proof  %s\n  do     %s\n", a.Proof, a.Do)
	}
	for _, h := range l.Hidden {
		if h.Bytes > 0 {
			fmt.Fprintf(out, "\n%s of %s were touched by what is not seen (%s, the kernel), or by nothing: hotspots run --objects all tells.\n", figures.Count(h.Bytes, "byte"), h.Memory, some(h.Objects))
			continue
		}
		fmt.Fprintf(out, "\n%s of %s are resident that were touched by what is not seen (%s, the kernel), or by nothing: hotspots run --objects all tells.\n", figures.Count(h.Pages, "page"), h.Memory, some(h.Objects))
	}
	if !l.Heat {
		fmt.Fprint(out, "\nTouched pages were not noted: of memory that is written there is advice after hotspots run --heat=pages.\n")
	}
	return out.Flush()
}

// some is the first few of names.
func some(names []string) string {
	const few = 3
	if more := len(names) - few; more > 1 {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:few], ", "), more)
	}
	return strings.Join(names, ", ")
}

func (a *Advice) name() string {
	if a.Kind == kindOverlay {
		return "written memory"
	}
	return filepath.Base(a.Memory)
}

// JSON writes all, with the plan of the overlay.
func (l *List) JSON(w io.Writer) error {
	return report.WriteJSON(w, struct {
		Schema int `json:"schema"`
		*List
	}{report.Schema, l}, "advice", l.Advice)
}

// CSV writes a line for each advice.
func (l *List) CSV(w io.Writer) error {
	rows := [][]string{{"kind", "memory", "pages", "before", "after", "evidence", "proof", "do", "pages_at_most", "name", "bytes", "confidence"}}
	for _, a := range l.Advice {
		rows = append(rows, []string{a.Kind, a.Memory, strconv.FormatUint(a.Pages, 10), strconv.FormatUint(a.Before, 10), strconv.FormatUint(a.After, 10), a.Evidence, a.Proof, a.Do, strconv.FormatUint(a.AtMost, 10), a.Name, strconv.FormatUint(a.Bytes, 10), a.Confidence})
	}
	return csv.NewWriter(w).WriteAll(rows)
}
