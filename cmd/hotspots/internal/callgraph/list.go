package callgraph

import (
	"bufio"
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
	"github.com/dynprof/dynprof/internal/table/layout"
)

// List is what is shown of a graph: its edges, the most calls first, and, where it is asked
// for functions, those of each.
type List struct {
	*Graph
	Program string
	Objects []layout.Object
	Mangled bool // names as they are in the file
	Top     int  // only so many edges of a part; 0: all
	Side    Side // of a function's edges, those that are shown
}

// Side says which of a function's edges are shown.
type Side uint8

// Sides.
const (
	Both Side = iota
	Callers
	Callees
)

// name is how a function is shown.
func (l *List) name(n int) string {
	f := &l.Functions[n]
	name := symname.Display(f.Name, l.Objects[f.Object].Path, f.Address, !l.Mangled)
	if f.IFunc {
		name += " (ifunc)"
	}
	return name
}

func (l *List) object(n int) string { return filepath.Base(l.path(n)) }

func (l *List) path(n int) string { return symname.Clean(l.Objects[l.Functions[n].Object].Path) }

// Find is the functions of that name, of those that have called or been called.
func (l *List) Find(name string) (found []int) {
	for i := range l.Functions {
		f := &l.Functions[i]
		e := f.Entry
		if e == nil {
			e = &layout.Function{Name: f.Name, Address: f.Address}
		}
		if report.IsNamed(e, l.name(i), name) {
			found = append(found, i)
		}
	}
	return found
}

// pick is the edges that are wanted, and how many calls these are.
func (l *List) pick(want func(e *Edge) bool) (edges []Edge, calls uint64) {
	for i := range l.Edges {
		if e := &l.Edges[i]; want(e) {
			edges = append(edges, *e)
			calls += e.Calls
		}
	}
	return edges, calls
}

func (l *List) callersOf(n int) []Edge {
	edges, _ := l.pick(func(e *Edge) bool { return e.Callee == n && l.Side != Callees })
	return edges
}

func (l *List) calleesOf(n int) []Edge {
	edges, _ := l.pick(func(e *Edge) bool { return e.Caller == n && l.Side != Callers })
	return edges
}

// first is the first edges, as many as are shown.
func (l *List) first(edges []Edge) []Edge {
	if l.Top > 0 {
		edges = edges[:min(l.Top, len(edges))]
	}
	return edges
}

// What is said of edges that lack an end.
const (
	fromElsewhere = "from elsewhere: indirect calls, callers whose blocks are not counted, those told at most"
	fromNoSite    = "from elsewhere: by pointers, other objects and short jumps, signals, by call sites that are not counted"
	toUnknown     = "to what is not known: calls by pointers, for which there is hotspots run --edges"
	toUnnoted     = "to what is not known: more callees than there is room for, code of no file, threads of a sandbox"
)

// elsewhere is what is said of callers that are not known.
func (l *List) elsewhere() string {
	if l.BySite != nil {
		return fromNoSite
	}
	return fromElsewhere
}

// unknown is what is said of callees that are not known.
func (l *List) unknown() string {
	if l.Noted {
		return toUnnoted
	}
	return toUnknown
}

// Text writes the edges with most calls of which both ends are known, and what share of its
// callee's calls each is.
func (l *List) Text(w io.Writer, style report.Style) error {
	edges, _ := l.pick(isKnown)
	_, calls := l.pick(func(e *Edge) bool { return e.Kind == Call || e.Kind == Tail })
	_, elsewhere := l.pick(func(e *Edge) bool { return e.Kind == Elsewhere })
	_, unknown := l.pick(func(e *Edge) bool { return e.Kind == Unknown })
	besides := fmt.Sprintf(", and %s went to what is not known", figures.Thousands(unknown))
	if l.BySite != nil {
		besides = "; " + l.BySite.String()
	}
	if _, err := fmt.Fprintf(w, "%s: %s calls between functions; besides, %s came from elsewhere%s\n",
		l.Program, figures.Thousands(calls), figures.Thousands(elsewhere), besides); err != nil {
		return err
	}
	var rows [][3]string
	for _, e := range l.first(edges) {
		rows = append(rows, [3]string{figures.Thousands(e.Calls) + "\t" + e.share(l.Functions[e.Callee].Calls), e.Kind.String(), l.name(e.Caller) + " -> " + l.name(e.Callee)})
	}
	return report.Rows(w, style, [3]string{"CALLS\tOF CALLEE", "KIND", "CALLER -> CALLEE"}, rows)
}

// String says how many of the call sites are counted.
func (b *BySite) String() string {
	says := fmt.Sprintf("%s of %s call sites are not counted", figures.Thousands(uint64(b.Uncounted)), figures.Thousands(uint64(b.Counted+b.Uncounted)))
	if b.Counted+b.Uncounted == 0 {
		says = "no call site is counted, as with --keep-calls, a translator or a debugger, and in code of Go"
	}
	if len(b.WithoutRoom) > 0 {
		says += ", and there was no room for those of " + strings.Join(b.WithoutRoom, ", ")
	}
	return says
}

// share is that of the edge's calls in all of these, if it is known.
func (e *Edge) share(all uint64) string {
	if e.Kind == AtMost {
		return "-"
	}
	return figures.Share(e.Calls, all)
}

func isKnown(e *Edge) bool { return e.Caller != None && e.Callee != None }

// FunctionText writes who called a function, and whom it called, with shares of all calls
// of it, if these are counted, and of those that it is known to have made.
func (l *List) FunctionText(w io.Writer, n int, style report.Style) error {
	f := &l.Functions[n]
	calls := figures.Thousands(f.Calls) + " calls"
	if !f.Counted {
		calls = "its calls are not counted, there may be more than these"
	}
	if _, err := fmt.Fprintf(w, "%s of %s: %s\n", l.name(n), l.object(n), calls); err != nil {
		return err
	}
	return l.EdgesText(w, n, style)
}

// Number is that of the function at a place; false if it has neither called nor been called.
func (l *List) Number(p Place) (int, bool) {
	n := slices.IndexFunc(l.Functions, func(f Function) bool { return f.Place == p })
	return n, n >= 0
}

// EdgesText writes who called a function, and whom it called.
func (l *List) EdgesText(w io.Writer, n int, style report.Style) error {
	f := &l.Functions[n]
	if err := l.part(w, style, "CALLER", l.callersOf(n), f.Calls, func(e *Edge) string { return l.end(e.Caller, l.elsewhere()) }); err != nil {
		return err
	}
	_, made := l.pick(func(e *Edge) bool { return e.Caller == n && e.Kind != AtMost })
	return l.part(w, style, "CALLEE", l.calleesOf(n), made, func(e *Edge) string { return l.end(e.Callee, l.unknown()) })
}

func (l *List) part(w io.Writer, style report.Style, heading string, edges []Edge, all uint64, end func(*Edge) string) error {
	if len(edges) == 0 {
		return nil
	}
	var rows [][3]string
	for i := range l.first(edges) {
		e := &edges[i]
		rows = append(rows, [3]string{figures.Thousands(e.Calls) + "\t" + e.share(all), e.Kind.String(), end(e)})
	}
	return report.Rows(w, style, [3]string{"CALLS\tSHARE", "KIND", heading}, rows)
}

// Neighbor is a function that called one, or was called by it.
type Neighbor struct {
	Name  string // with its object, or why it is not known
	Kind  Kind
	Calls uint64
}

// Around is the callers and the callees of the function at an address, the most calls first.
func (l *List) Around(p Place) (callers, callees []Neighbor) {
	n, ok := l.Number(p)
	if !ok {
		return nil, nil
	}
	for _, e := range l.callersOf(n) {
		callers = append(callers, Neighbor{l.end(e.Caller, l.elsewhere()), e.Kind, e.Calls})
	}
	for _, e := range l.calleesOf(n) {
		callees = append(callees, Neighbor{l.end(e.Callee, l.unknown()), e.Kind, e.Calls})
	}
	return callers, callees
}

// end is one end of an edge, or what is said where it is not known.
func (l *List) end(n int, none string) string {
	if n == None {
		return none
	}
	return l.name(n) + " of " + l.object(n)
}

// end is a function in JSON.
type end struct {
	Object  string         `json:"object"`
	BuildID string         `json:"build_id"`
	Address report.Address `json:"address"`
	Name    string         `json:"name"`
}

type edge struct {
	Caller *end   `json:"caller"` // null: elsewhere
	Callee *end   `json:"callee"` // null: not known
	Kind   Kind   `json:"kind"`
	Calls  uint64 `json:"calls"`
	Sites  []site `json:"sites"`
}

type site struct {
	Address report.Address `json:"address"`
	Calls   uint64         `json:"calls"`
}

func (l *List) endOf(n int) *end {
	if n == None {
		return nil
	}
	f := &l.Functions[n]
	return &end{l.path(n), symname.Clean(l.Objects[f.Object].BuildID), report.Address(f.Address), l.name(n)}
}

func (l *List) edges(list []Edge) []edge {
	out := make([]edge, 0, len(list))
	for i := range l.first(list) {
		e := &list[i]
		sites := make([]site, len(e.Sites))
		for k, s := range e.Sites {
			sites[k] = site{report.Address(s.Address), s.Calls}
		}
		out = append(out, edge{l.endOf(e.Caller), l.endOf(e.Callee), e.Kind, e.Calls, sites})
	}
	return out
}

// head is how JSON begins.
type head struct {
	Schema    int    `json:"schema"`
	Program   string `json:"program"`
	Counted   *int   `json:"sites_counted,omitempty"` // only where calls are counted by site
	Uncounted *int   `json:"sites_not_counted,omitempty"`

	WithoutRoom []string `json:"sites_without_room,omitempty"`
}

func (l *List) head() head {
	h := head{Schema: report.Schema, Program: l.Program}
	if l.BySite != nil {
		h.Counted, h.Uncounted, h.WithoutRoom = &l.BySite.Counted, &l.BySite.Uncounted, l.BySite.WithoutRoom
	}
	return h
}

// JSON writes the edges.
func (l *List) JSON(w io.Writer) error {
	return report.WriteJSON(w, l.head(), "edges", l.edges(l.Edges))
}

// FunctionJSON writes functions with the edges to them, and from them.
func (l *List) FunctionJSON(w io.Writer, functions []int) error {
	type function struct {
		*end
		Calls   *uint64 `json:"calls"` // null: they are not counted
		Callers []edge  `json:"callers"`
		Callees []edge  `json:"callees"`
	}
	list := make([]function, len(functions))
	for i, n := range functions {
		callers := l.callersOf(n)
		callees := l.calleesOf(n)
		list[i] = function{end: l.endOf(n), Callers: l.edges(callers), Callees: l.edges(callees)}
		if f := &l.Functions[n]; f.Counted {
			list[i].Calls = &f.Calls
		}
	}
	return report.WriteJSON(w, l.head(), "functions", list)
}

// EdgesOf are the edges to a function, and those from it, as they are written in JSON.
func (l *List) EdgesOf(n int) (callers, callees any) {
	return l.edges(l.callersOf(n)), l.edges(l.calleesOf(n))
}

// Of leaves the edges from and to functions, on the side that is shown.
func (l *List) Of(functions []int) *List {
	g := *l.Graph
	g.Edges, _ = l.pick(func(e *Edge) bool {
		return l.Side != Callers && slices.Contains(functions, e.Caller) || l.Side != Callees && slices.Contains(functions, e.Callee)
	})
	one := *l
	one.Graph = &g
	return &one
}

// CSV writes the edges.
func (l *List) CSV(w io.Writer) error {
	rows := [][]string{{"caller_object", "caller_address", "caller", "callee_object", "callee_address", "callee", "kind", "calls"}}
	columns := func(n int) []string {
		if n == None {
			return []string{"", "", ""}
		}
		return []string{l.path(n), report.Address(l.Functions[n].Address).String(), l.name(n)}
	}
	for _, e := range l.first(l.Edges) {
		rows = append(rows, append(append(columns(e.Caller), columns(e.Callee)...), e.Kind.String(), strconv.FormatUint(e.Calls, 10)))
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// Folded writes collapsed stacks of two frames, as flamegraph.pl and speedscope read them:
// a caller, or [elsewhere], one that it called, and the calls of that edge. More of a stack is
// not known. What an edge bounds only, and what went to unknown functions, is left out: it is
// in those from elsewhere, so that no call is there twice.
func (l *List) Folded(w io.Writer) error {
	out := bufio.NewWriter(w)
	edges, _ := l.pick(func(e *Edge) bool { return e.Callee != None && e.Kind != AtMost })
	for _, e := range l.first(edges) {
		caller := "[elsewhere]"
		if e.Caller != None {
			caller = symname.Frame(l.name(e.Caller))
		}
		fmt.Fprintf(out, "%s;%s %d\n", caller, symname.Frame(l.name(e.Callee)), e.Calls)
	}
	return out.Flush()
}

// Dot writes the edges of which both ends are known as a graph for Graphviz: functions are
// boxes with their calls, edges the thicker the more calls they are, tail calls dashed, what is known at most dotted.
func (l *List) Dot(w io.Writer) error {
	out := bufio.NewWriter(w)
	edges, _ := l.pick(isKnown)
	edges = l.first(edges)
	fmt.Fprintf(out, "digraph calls {\n\tlabel=%s;\n\tnode [shape=box];\n", quoted(l.Program))
	drawn := map[int]bool{}
	for _, e := range edges {
		l.box(out, drawn, e.Caller)
		l.box(out, drawn, e.Callee)
		const thickest = 5.0
		label, style := figures.Thousands(e.Calls), ""
		switch e.Kind {
		case Tail:
			style = ", style=dashed"
		case AtMost:
			label, style = "at most "+label, ", style=dotted"
		}
		fmt.Fprintf(out, "\tn%d -> n%d [label=%s, penwidth=%.1f%s];\n", e.Caller, e.Callee, quoted(label), 1+(thickest-1)*float64(e.Calls)/float64(edges[0].Calls), style)
	}
	fmt.Fprintln(out, "}")
	return out.Flush()
}

// box writes a function that is drawn for the first time.
func (l *List) box(w io.Writer, drawn map[int]bool, n int) {
	if drawn[n] {
		return
	}
	drawn[n] = true
	text := l.name(n)
	if f := &l.Functions[n]; f.Counted {
		text += "\n" + figures.Thousands(f.Calls) + " calls"
	}
	fmt.Fprintf(w, "\tn%d [label=%s];\n", n, quoted(text))
}

// quoted is a string of the dot language, in which \n is a new line.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
