package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	pages "github.com/dynprof/dynprof/internal/table/heat"
)

// mostObjects is how many are told at a time: the largest.
const mostObjects = 4096

// dataObject is one that is drawn. Neighbours have other hues, and blocks one by who has asked for them.
type dataObject struct {
	Name  string     `json:"name"`
	From  uint64     `json:"from"` // addresses
	To    uint64     `json:"to"`
	Hue   int        `json:"hue"`
	Block *heat.Told `json:"block"` // null: it is a variable
}

// variables are those in some addresses.
func (y *symbols) variables(p *program, from, to uint64) []heat.Symbol {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.of(p).Variables(from, to)
}

// asker is who asks for blocks, by the address that the call returns to.
func (y *symbols) asker(p *program, back uint64) string {
	y.mu.Lock()
	defer y.mu.Unlock()
	a := y.of(p).Asker(back)
	return a.String()
}

// blocks are those of malloc, as they were read last.
type blocks struct {
	mu    sync.Mutex
	all   *pages.Allocs // nil: there are none
	file  os.FileInfo
	times *heat.Times
	count int // slices of these
}

// read are all that are known by now; nil if none are noted.
func (b *blocks) read(p *program, f *pages.File) (*pages.Allocs, *heat.Times, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, err := os.Stat(pages.AllocsPath(p.source.Path()))
	if err != nil {
		return nil, nil, nil // they are not noted
	}
	if b.file == nil || !os.SameFile(b.file, now) || !b.file.ModTime().Equal(now.ModTime()) {
		t, err := p.openTable()
		if err != nil {
			return nil, nil, err
		}
		all, err := pages.ReadAllocs(t.Path(), t.Nonce)
		t.Close()
		if err != nil && !errors.Is(err, pages.ErrNoAllocs) {
			return nil, nil, err
		}
		b.all, b.file = all, now
		if all != nil {
			all.In(0, 0, nil) // it finds out what it needs to be asked by several
		}
	}
	if b.times == nil || b.count != f.Count {
		b.times, b.count = heat.TimesOf(f), f.Count
	}
	return b.all, b.times, nil
}

// blocksIn are those that were in some addresses in some time, and who asks for blocks.
func (p *program) blocksIn(f *pages.File, of pages.Part) (list []dataObject, callers []pages.Caller, err error) {
	all, times, err := p.blocks.read(p, f)
	if all == nil || err != nil {
		return nil, nil, err
	}
	all.In(of.First, of.End, func(b *pages.Block) {
		if told := times.Told(b); told.Within(of.After, of.Before) && b.Bytes > 0 {
			list = append(list, dataObject{From: told.From, To: told.To, Hue: told.Site, Block: &told})
		}
	})
	return list, all.Callers, nil
}

// lastOnes are those that were the last at their addresses: what lies upon others is left out, but of the latest.
func lastOnes(list []dataObject) (some []dataObject) {
	slices.SortStableFunc(list, func(a, b dataObject) int { return cmp.Compare(b.Block.Slice, a.Block.Slice) })
	taken := map[uint64][]dataObject{} // by page
	for _, o := range list {
		free := true
		for page := o.From / pages.PageSize; page <= (o.To-1)/pages.PageSize && free; page++ {
			free = !slices.ContainsFunc(taken[page], func(t dataObject) bool { return t.From < o.To && t.To > o.From })
		}
		if !free {
			continue
		}
		for page := o.From / pages.PageSize; page <= (o.To-1)/pages.PageSize; page++ {
			taken[page] = append(taken[page], o)
		}
		some = append(some, o)
	}
	return some
}

// objects are what lies in some addresses, by these, in some time: of more than can be told the largest.
func (s *Server) objects(p *program, q url.Values, r *http.Request) (reply, error) {
	of, err := part(q, 1)
	if err != nil {
		return reply{}, failed(http.StatusBadRequest, err)
	}
	of.End = min(of.End, pages.Pages*pages.PageSize)
	all := []dataObject{}
	for i, v := range p.symbols.variables(p, of.First, of.End) {
		all = append(all, dataObject{Name: v.Name, From: v.From, To: v.To, Hue: i})
	}
	var callers []pages.Caller
	if src, err := s.noted(r.Context(), p); err == nil { // without pages there are no blocks either
		var blocks []dataObject
		if blocks, callers, err = p.blocksIn(src.File, of); err != nil {
			return reply{}, err
		}
		all = append(all, lastOnes(blocks)...)
	}
	more := max(0, len(all)-mostObjects)
	if more > 0 {
		slices.SortStableFunc(all, func(a, b dataObject) int { return cmp.Compare(b.To-b.From, a.To-a.From) })
		all = all[:mostObjects]
	}
	slices.SortStableFunc(all, func(a, b dataObject) int { return cmp.Compare(a.From, b.From) })
	for i := range all {
		if b := all[i].Block; b != nil {
			all[i].Name = p.symbols.asker(p, callers[b.Site].Back)
		}
	}
	return jsonReply(map[string]any{"schema": Schema, "objects": all, "more": more})
}

// toldBlocks is blocks at some addresses: the first of them, and how many more there are.
type toldBlocks struct {
	Blocks []dataObject `json:"blocks"` // up to three
	More   int          `json:"more"`
}

// blocksAt are those that were at some addresses when so many instructions had run; if there is none, those that were
// the last there.
func (p *program) blocksAt(f *pages.File, of pages.Part) (told toldBlocks, err error) {
	const most = 3
	told.Blocks = []dataObject{}
	of.After = 0
	list, callers, err := p.blocksIn(f, of)
	if err != nil {
		return told, err
	}
	list = lastOnes(list)
	slices.SortStableFunc(list, func(a, b dataObject) int { return cmp.Compare(a.From, b.From) })
	told.More = max(0, len(list)-most)
	for i := range list[:min(most, len(list))] {
		list[i].Name = p.symbols.asker(p, callers[list[i].Block.Site].Back)
		told.Blocks = append(told.Blocks, list[i])
	}
	return told, nil
}
