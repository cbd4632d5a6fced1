package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heatmap"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
)

// memory is which pages the program has touched when, as hotspots heat picture draws them.
func (s *Server) memory(p *program, _ url.Values, asked *http.Request) (reply, error) {
	t, done, err := s.whole(asked.Context(), p)
	if err != nil {
		return reply{}, err
	}
	defer done()
	m, err := heat.PagesOf(t, heat.Show{})
	if err != nil {
		return reply{}, failed(http.StatusNotFound, err)
	}
	c, err := heatmap.CellsOf(m, heatmap.Options{})
	if err != nil {
		return reply{}, failed(http.StatusNotFound, err)
	}
	return jsonReply(struct {
		Schema int `json:"schema"`
		*heatmap.Cells
		Touched   uint64   `json:"touched"`
		Slices    int      `json:"slices"`
		Functions []string `json:"functions"` // by row: which begin there
	}{Schema, c, m.Total.Touched, len(m.Curve), functionsIn(t, c, !s.Mangled)})
}

// functionsIn says which functions begin in the pages of each row.
func functionsIn(t *table.Table, c *heatmap.Cells, demangle bool) []string {
	type place struct {
		at uint64
		i  int
	}
	var all []place
	for i := range t.Functions {
		f := &t.Functions[i]
		all = append(all, place{t.Objects[f.Object].Bias + f.Address, i})
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	from := func(address uint64) int {
		return sort.Search(len(all), func(i int) bool { return all[i].at >= address })
	}
	texts := make([]string, len(c.Addresses))
	for row, address := range c.Addresses {
		first, end := from(uint64(address)), from(uint64(address)+c.Row)
		if first == end {
			continue
		}
		f := &t.Functions[all[first].i]
		texts[row] = symname.Display(f.Name, t.Objects[f.Object].Path, f.Address, demangle)
		if more := end - first - 1; more > 0 {
			texts[row] += fmt.Sprintf(" and %d more", more)
		}
	}
	return texts
}
