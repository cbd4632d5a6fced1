package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	pages "github.com/dynprof/dynprof/internal/table/heat"
)

// mostObjects is how many are told at a time: the largest.
const mostObjects = 4096

// dataObject is one that is drawn. Neighbours have other hues.
type dataObject struct {
	Name string `json:"name"`
	From uint64 `json:"from"` // addresses
	To   uint64 `json:"to"`
	Hue  int    `json:"hue"`
}

// variables are those in some addresses.
func (y *symbols) variables(p *program, from, to uint64) []heat.Symbol {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.of(p).Variables(from, to)
}

// objects are what lies in some addresses, by these: of more than can be told the largest.
func (s *Server) objects(p *program, q url.Values, _ *http.Request) (reply, error) {
	of, err := part(q, 1)
	if err != nil {
		return reply{}, failed(http.StatusBadRequest, err)
	}
	all := []dataObject{}
	for i, v := range p.symbols.variables(p, of.First, min(of.End, pages.Pages*pages.PageSize)) {
		all = append(all, dataObject{Name: v.Name, From: v.From, To: v.To, Hue: i})
	}
	more := max(0, len(all)-mostObjects)
	if more > 0 {
		slices.SortStableFunc(all, func(a, b dataObject) int { return cmp.Compare(b.To-b.From, a.To-a.From) })
		all = all[:mostObjects]
		slices.SortStableFunc(all, func(a, b dataObject) int { return cmp.Compare(a.From, b.From) })
	}
	return jsonReply(map[string]any{"schema": Schema, "objects": all, "more": more})
}
