package advise

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/callgraph"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Order is how the functions of an object could lie, so that those that ran are next to each
// other: by clusters of callers and callees (C3, Ottoni and Maher, "Optimizing Function
// Placement for Large-Scale Data-Center Applications", CGO 2017), of exact counts.
type Order struct {
	Object    string
	Functions int      // that are known
	Ran       int      // of them
	Unnamed   int      // of those that ran: they stay, as no linker can be told of them
	Before    uint64   // pages that instructions have run on
	After     uint64   // the same, with functions in this order from the beginning of a page on
	Names     []string // of those that ran, as in the file, in the order
}

// mostCluster is the bytes that a cluster has: callers and callees that are farther apart than
// a page are not next to each other anyway.
const mostCluster = heat.PageSize

// What Write knows.
const (
	ld   = "ld"
	lld  = "lld"
	gold = "gold"
)

// Linkers are those that Write knows.
var Linkers = []string{ld, lld, gold}

// function is one that ran, or that has the same name.
type function struct {
	at, size uint64
	weight   uint64 // instructions; calls, where these are not counted
	ran      []span // of its bytes
}

// span is bytes from an offset on.
type span struct{ at, size uint64 }

// ordering makes the order of one object.
type ordering struct {
	named   map[string][]*function
	stay    []span              // what ran and cannot be moved
	callers map[string][]caller // by callee, those that ran
}

type caller struct {
	name  string
	calls uint64
}

// orderOf is the order of an object's functions.
func orderOf(t *table.Table, calls []uint64, flow *table.Flow, g *callgraph.Graph, object int) *Order {
	o := &Order{Object: t.Objects[object].Path}
	b := ordering{named: map[string][]*function{}, callers: map[string][]caller{}}
	ran := map[string]bool{}
	for i := range t.Functions {
		f := &t.Functions[i]
		if int(f.Object) != object {
			continue
		}
		o.Functions++
		one := functionOf(f, calls[i], flow.Of(uint32(i)).Blocks, &b.stay)
		if len(one.ran) > 0 {
			o.Ran++
		}
		if f.Name == "" {
			if len(one.ran) > 0 {
				o.Unnamed++
			}
			for _, s := range one.ran {
				b.stay = append(b.stay, span{one.at + s.at, s.size})
			}
			continue
		}
		b.named[f.Name] = append(b.named[f.Name], one)
		ran[f.Name] = ran[f.Name] || len(one.ran) > 0
	}
	for name, is := range ran {
		if !is {
			delete(b.named, name)
		}
	}
	for _, e := range g.Edges {
		if e.Caller == callgraph.None || e.Callee == callgraph.None || e.Caller == e.Callee {
			continue
		}
		from, to := &g.Functions[e.Caller], &g.Functions[e.Callee]
		if from.Object == object && to.Object == object && b.named[from.Name] != nil && b.named[to.Name] != nil {
			b.callers[to.Name] = append(b.callers[to.Name], caller{from.Name, e.Calls})
		}
	}
	o.Names = b.order()
	o.Before, o.After = b.before(), b.after(o.Names)
	return o
}

// functionOf is a function, with what of it has run; blocks that are elsewhere, as cold ones, stay.
func functionOf(f *layout.Function, calls uint64, blocks []table.Block, stay *[]span) *function {
	one := &function{at: f.Address, size: uint64(f.Size)}
	for i := range blocks {
		switch k := &blocks[i]; {
		case k.Runs == 0:
		case k.Address >= one.at && k.Address-one.at+uint64(k.Size) <= one.size:
			one.weight += k.Executed()
			one.ran = append(one.ran, span{k.Address - one.at, uint64(k.Size)})
		default:
			*stay = append(*stay, span{k.Address, uint64(k.Size)})
		}
	}
	if len(blocks) == 0 && calls > 0 && one.size > 0 { // which part of it is not known
		one.weight, one.ran = calls, []span{{0, one.size}}
	}
	return one
}

// cluster is functions that shall lie next to each other.
type cluster struct {
	names  []string
	size   uint64
	weight uint64
}

// order is the names, by C3: each function, those that have executed most first, comes behind
// its most frequent caller's cluster; then clusters come by how much was executed in a byte.
func (b *ordering) order() (names []string) {
	of := map[string]*cluster{}
	for name, functions := range b.named {
		c := &cluster{names: []string{name}}
		for _, f := range functions {
			c.size, c.weight = c.size+f.size, c.weight+f.weight
		}
		of[name], names = c, append(names, name)
	}
	weights := map[string]uint64{}
	for name, c := range of {
		weights[name] = c.weight
	}
	byWeight := func(a, b string) int {
		return cmp.Or(cmp.Compare(weights[b], weights[a]), strings.Compare(a, b))
	}
	slices.SortFunc(names, byWeight)
	for _, name := range names {
		c := of[name]
		if len(b.callers[name]) == 0 {
			continue
		}
		most := slices.MaxFunc(b.callers[name], func(a, b caller) int {
			return cmp.Or(cmp.Compare(a.calls, b.calls), strings.Compare(b.name, a.name))
		})
		to := of[most.name]
		if to == c || to.size+c.size > mostCluster {
			continue
		}
		to.names, to.size, to.weight = append(to.names, c.names...), to.size+c.size, to.weight+c.weight
		for _, n := range c.names {
			of[n] = to
		}
	}
	var all []*cluster
	for _, name := range names {
		if c := of[name]; c.names[0] == name {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *cluster) int {
		return cmp.Compare(float64(b.weight)*float64(a.size), float64(a.weight)*float64(b.size))
	})
	names = names[:0]
	for _, c := range all {
		names = append(names, c.names...)
	}
	return names
}

// before is the pages that instructions have run on.
func (b *ordering) before() uint64 {
	p := pages{}
	for _, s := range b.stay {
		p.add(s)
	}
	for _, functions := range b.named {
		for _, f := range functions {
			for _, s := range f.ran {
				p.add(span{f.at + s.at, s.size})
			}
		}
	}
	return uint64(len(p))
}

// after is the same where functions lie in an order, each as it is aligned now, at 16 bytes at
// most.
func (b *ordering) after(names []string) uint64 {
	const mostAligned = 16
	p := pages{}
	at := uint64(0)
	for _, name := range names {
		for _, f := range b.named[name] {
			align := min(f.at&-f.at, mostAligned)
			if align > 0 {
				at = (at + align - 1) &^ (align - 1)
			}
			for _, s := range f.ran {
				p.add(span{at + s.at, s.size})
			}
			at += f.size
		}
	}
	moved := uint64(len(p))
	p = pages{}
	for _, s := range b.stay {
		p.add(s)
	}
	return moved + uint64(len(p))
}

// pages is a set of them.
type pages map[uint64]struct{}

func (p pages) add(s span) {
	for n := s.at / heat.PageSize; n <= (s.at+s.size-1)/heat.PageSize; n++ {
		p[n] = struct{}{}
	}
}

// Write writes the order as a linker reads it; the program is compiled with -ffunction-sections.
func (o *Order) Write(w io.Writer, linker string) error {
	// Where compilers put what they know more of; without any it is the first.
	kinds := []string{".text.", ".text.hot.", ".text.startup."}
	out := bufio.NewWriter(w)
	switch linker {
	case lld:
		for _, name := range o.Names {
			fmt.Fprintln(out, name)
		}
	case gold:
		for _, name := range o.Names {
			for _, kind := range kinds {
				fmt.Fprintln(out, kind+name)
			}
		}
	case ld:
		fmt.Fprintf(out, "/* Functions of %s that ran, of hotspots advise: link with -Wl,-T,FILE. */\nSECTIONS\n{\n  .text.ordered :\n  {\n", strings.ReplaceAll(filepath.Base(o.Object), "*/", "* /"))
		for _, name := range o.Names {
			fmt.Fprint(out, "   ")
			for _, kind := range kinds {
				fmt.Fprintf(out, " *(%s)", kind+name)
			}
			fmt.Fprintln(out)
		}
		fmt.Fprint(out, "  }\n}\nINSERT BEFORE .text;\n")
	}
	return out.Flush()
}
