package callgraph

import (
	"slices"

	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// ofSites is the graph of a table that counts calls by site. Sites are read first: of a
// program that runs, none has more calls then than its callee.
func ofSites(t *table.Table, files Files) (*Graph, error) {
	sites, err := t.Sites()
	if err != nil {
		return nil, err
	}
	s, err := t.Snapshot()
	if err != nil {
		return nil, err
	}
	return NewOfSites(t.Objects, t.Functions, s.Calls, sites, files), nil
}

// NewOfSites makes the graph of functions, of which calls tell how often they were called,
// and sites from where.
func NewOfSites(objects []layout.Object, functions []layout.Function, calls []uint64, sites []table.Site, files Files) *Graph {
	b := newBuilder(objects, functions, calls, files)
	b.BySite = &BySite{}
	for i := range objects {
		if path := symname.Clean(objects[i].Path); objects[i].Flags&layout.ObjByCall != 0 && !slices.Contains(b.BySite.WithoutRoom, path) {
			b.BySite.WithoutRoom = append(b.BySite.WithoutRoom, path)
		}
	}
	for i := range sites {
		s := &sites[i]
		if !s.IsCounted() {
			b.BySite.Uncounted++
			continue
		}
		b.BySite.Counted++
		if s.Calls == 0 {
			continue
		}
		kind := Call
		if s.Flags&layout.SiteTail != 0 {
			kind = Tail
		}
		from := &functions[s.Caller] // a cold part of nobody's has a name at most
		caller, callee := b.number(callee{entryOf(from), from.Name}), b.number(calleeOf(entryOf(&functions[s.Callee])))
		b.add(edgeKey{caller, callee, kind}, Site{s.Address, s.Calls})
	}
	b.addElsewhere()
	b.sort()
	return b.Graph
}
