// Package callgraph works out who called whom, and how often, from how often blocks have
// run: a block ends behind a call, so that it has called as often as it ran. Or from
// counters of call sites.
package callgraph

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
)

// Graph is who called whom.
type Graph struct {
	Functions []Function // those that have called or been called
	Edges     []Edge     // those that were taken; the most calls first
	Noted     bool       // whom pointers reached is known, as far as there was room
	BySite    *BySite    // nil: it is of blocks
}

// BySite is what is known of a graph that was counted by call sites, without blocks.
type BySite struct {
	Counted     int      // call sites
	Uncounted   int      // and those whose calls are not told from others from elsewhere
	WithoutRoom []string // objects of which none is known: there was no room for them
}

// Function is one end of an edge.
type Function struct {
	Place
	Name    string // as in the file; empty if it has none
	Entry   *layout.Function
	Calls   uint64 // of it, where they are counted
	Counted bool
	Own     *uint64 // instructions that it has executed itself; nil: its blocks are not counted
	Partly  bool    // in some of its calls: all that it has called is more
}

// Place is a link-time address of an object, which is given by its number in the table.
type Place struct {
	Object  int
	Address uint64
	IFunc   bool // what the function at the address has chosen: that is not known, but its symbol
}

func entryOf(f *layout.Function) Place { return Place{Object: int(f.Object), Address: f.Address} }

// Edge is calls of one function by another.
type Edge struct {
	Caller, Callee int // numbers in Functions, or None
	Kind           Kind
	Calls          uint64
	Sites          []Site // instructions that made them, by address; none if it has no caller
}

// None is in place of a function that is not known.
const None = -1

// Site is an instruction that calls, and how often it did.
type Site struct {
	Address uint64
	Calls   uint64
}

// Kind says what is known of an edge.
type Kind uint8

// Kinds of edges. A function's calls are those of all edges that lead to it, but for AtMost.
const (
	Call      Kind = iota // by a call instruction
	Tail                  // by a jump to the function's entry
	AtMost                // by one that stands right behind a call, which may not have come back each time
	Elsewhere             // all other calls of the callee: there is no caller
	Unknown               // calls of which the callee is not known
)

var kindNames = [...]string{"call", "tail call", "at most", "elsewhere", "unknown"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Files reads the files of a table's objects, by their number in it.
type Files struct {
	Image func(object int) (*objcode.Image, error)
	Links func(object int) (*objcode.Links, error)
}

// FilesOf reads those of a table, each once.
func FilesOf(t *table.Table) Files {
	return Files{
		Image: once(func(i int) (*objcode.Image, error) { return objcode.Load(&t.Objects[i]) }),
		Links: once(func(i int) (*objcode.Links, error) { return objcode.LoadLinks(&t.Objects[i], t.Realtime) }),
	}
}

// once is read, which is asked once for each number.
func once[T any](read func(int) (T, error)) func(int) (T, error) {
	type answer struct {
		value T
		err   error
	}
	known := map[int]answer{}
	return func(i int) (T, error) {
		a, ok := known[i]
		if !ok {
			a.value, a.err = read(i)
			known[i] = a
		}
		return a.value, a.err
	}
}

// Known reports whether a table tells who called whom.
func Known(t *table.Table) bool { return t.HasBlocks() || t.HasSites() }

// Of is the call graph of a table's program.
func Of(t *table.Table, files Files) (*Graph, error) {
	switch {
	case t.HasBlocks():
	case t.HasSites():
		return ofSites(t, files)
	default:
		return nil, fmt.Errorf("%s does not tell who called whom: run the program with hotspots run --edges, or --blocks", t.Path())
	}
	s, flow, err := report.Flow(t)
	if err != nil {
		return nil, err
	}
	return New(t.Objects, t.Functions, s.Calls, flow, files)
}

// New makes the graph of functions, of which calls and flow tell how often they and their
// blocks have run.
func New(objects []layout.Object, functions []layout.Function, calls []uint64, flow *table.Flow, files Files) (*Graph, error) {
	b := newBuilder(objects, functions, calls, files)
	b.Noted = flow.HasNotes()
	for first := 0; first < len(flow.Blocks); {
		function := flow.Blocks[first].Function
		part := flow.Of(function)
		if err := b.function(function, flow, &part); err != nil {
			return nil, err
		}
		first += len(part.Blocks)
	}
	b.addElsewhere()
	b.sort()
	return b.Graph, nil
}

// builder makes a graph.
type builder struct {
	*Graph
	*resolver
	calls   []uint64
	numbers map[Place]int // of functions of the graph
	edges   map[edgeKey]int
}

func newBuilder(objects []layout.Object, functions []layout.Function, calls []uint64, files Files) *builder {
	return &builder{
		Graph: &Graph{}, resolver: newResolver(objects, functions, files),
		calls: calls, numbers: map[Place]int{}, edges: map[edgeKey]int{},
	}
}

type edgeKey struct {
	caller, callee int
	kind           Kind
}

// function adds what the blocks of a function have called.
func (b *builder) function(number uint32, flow *table.Flow, part *table.Part) error {
	f := &b.functions[number]
	img, err := b.files.Image(int(f.Object))
	if err != nil {
		return err
	}
	own := map[uint64]bool{f.Address: true}
	for i := range part.Blocks {
		own[part.Blocks[i].Address] = true
	}
	out, executed := leaving(part), uint64(0)
	for i := range part.Blocks {
		k := &part.Blocks[i]
		if k.Runs == 0 {
			continue
		}
		executed += k.Executed()
		last, ok := lastOf(img, k)
		if !ok || own[last.to] && !last.calls() { // a jump within the function
			continue
		}
		n := k.Runs
		if last.Kind == x86.Jcc || last.Kind == x86.Loop {
			n = out[part.FirstBlock+uint32(i)]
		}
		n -= min(n, b.noted(f, last, flow.CalleesOf(part.FirstBlock+uint32(i))))
		if n > 0 {
			b.site(entryOf(f), last, n, k.After != layout.NoBlock && flow.Blocks[k.After].Runs > 0)
		}
	}
	if executed > 0 {
		caller := &b.Functions[b.number(calleeOf(entryOf(f)))]
		_, caller.Partly = flow.Observed(number)
		caller.Own = &executed
	}
	return nil
}

// noted adds the callees of an instruction, of those that are noted, and returns how many
// calls these are. A jump may lead on in its own function.
func (b *builder) noted(f *layout.Function, e ending, callees []table.Callee) (calls uint64) {
	for _, c := range callees {
		callee, ok := b.pointed(c.Address, int(f.Object))
		if !ok {
			continue // in no object: it is made while the program runs
		}
		calls += c.Calls
		kind := Call
		if !e.calls() {
			if kind = Tail; callee.Object == int(f.Object) && callee.Address-f.Address < uint64(f.Size) && callee.Address != f.Address {
				continue
			}
		}
		b.add(edgeKey{b.number(calleeOf(entryOf(f))), b.number(callee), kind}, Site{e.at, c.Calls})
	}
	return calls
}

// leaving is how often control has left the function from its blocks, by number of these: of
// each all that leads outside is one way.
func leaving(part *table.Part) map[uint32]uint64 {
	out := map[uint32]uint64{}
	for i := range part.Ways {
		if w := &part.Ways[i]; w.To == layout.NoBlock {
			out[w.From] = w.Taken
		}
	}
	return out
}

// ending is the last instruction of a block.
type ending struct {
	x86.Inst
	at   uint64
	code []byte
	to   uint64 // where it leads, if it says so
}

func lastOf(img *objcode.Image, b *table.Block) (last ending, ok bool) {
	end := b.Address
	for at, code := range img.Instructions(b.Address, b.Size) {
		last.at, last.code = at, code
		end = at + uint64(len(code))
	}
	if last.code == nil || end != b.Address+uint64(b.Size) || x86.Decode(last.code, &last.Inst) != nil {
		return last, false
	}
	last.to = last.BranchTarget(last.code, last.at)
	return last, !last.Far()
}

func (e *ending) calls() bool { return e.Kind == x86.Call || e.Kind == x86.CallInd }

// site adds an instruction that has led out of its function n times, or, where it stands
// behind a call at its old place, and counts with that, at most so often.
func (b *builder) site(caller Place, e ending, n uint64, atMost bool) {
	var callee callee
	found := false
	switch e.Kind {
	case x86.Call, x86.Jmp, x86.Jcc, x86.Loop:
		callee, found = b.at(Place{Object: caller.Object, Address: e.to})
	case x86.CallInd, x86.JmpInd:
		if e.RIPRel() {
			callee, found = b.behind(Place{Object: caller.Object, Address: e.RIPTarget(e.code, e.at)})
		}
	}
	if !found && !e.calls() {
		return // it may be none: a jump table, or into the middle of a function
	}
	k := edgeKey{b.number(calleeOf(caller)), None, Unknown}
	if found {
		k.callee, k.kind = b.number(callee), Tail
	}
	switch {
	case atMost:
		k.kind = AtMost
	case found && e.calls():
		k.kind = Call
	}
	b.add(k, Site{e.at, n})
}

func (b *builder) add(k edgeKey, s Site) {
	i, ok := b.edges[k]
	if !ok {
		i = len(b.Edges)
		b.edges[k] = i
		b.Edges = append(b.Edges, Edge{Caller: k.caller, Callee: k.callee, Kind: k.kind})
	}
	b.Edges[i].Calls += s.Calls
	b.Edges[i].Sites = append(b.Edges[i].Sites, s)
}

// number is that of a function of the graph.
func (b *builder) number(c callee) int {
	n, ok := b.numbers[c.Place]
	if ok {
		return n
	}
	n = len(b.Functions)
	b.numbers[c.Place] = n
	f := Function{Place: c.Place, Name: c.symbol}
	if i, ok := b.known[c.Place]; ok {
		e := &b.functions[i]
		f.Name, f.Entry, f.Counted = e.Name, e, e.Counted()
		if f.Counted {
			f.Calls = b.calls[i]
		}
	}
	b.Functions = append(b.Functions, f)
	return n
}

// addElsewhere adds what no other edge explains of the calls of each function. Of a program
// that runs, edges may be ahead of them.
func (b *builder) addElsewhere() {
	for i := range b.functions {
		if f := &b.functions[i]; b.calls[i] > 0 && f.Counted() {
			b.number(calleeOf(entryOf(f)))
		}
	}
	told := make([]uint64, len(b.Functions))
	for i := range b.Edges {
		if e := &b.Edges[i]; e.Callee != None && e.Kind != AtMost {
			told[e.Callee] += e.Calls
		}
	}
	for i := range b.Functions {
		if f := &b.Functions[i]; f.Counted && f.Calls > told[i] {
			b.Edges = append(b.Edges, Edge{Caller: None, Callee: i, Kind: Elsewhere, Calls: f.Calls - told[i]})
		}
	}
}

// sort orders edges by calls, and of as many by who they are of.
func (b *builder) sort() {
	place := func(n int) Place {
		if n == None {
			return Place{Object: None}
		}
		return b.Functions[n].Place
	}
	slices.SortFunc(b.Edges, func(x, y Edge) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), place(x.Caller).compare(place(y.Caller)), place(x.Callee).compare(place(y.Callee)), cmp.Compare(x.Kind, y.Kind))
	})
	for i := range b.Edges {
		slices.SortFunc(b.Edges[i].Sites, func(x, y Site) int { return cmp.Compare(x.Address, y.Address) })
	}
}

func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Object, q.Object), cmp.Compare(p.Address, q.Address))
}
