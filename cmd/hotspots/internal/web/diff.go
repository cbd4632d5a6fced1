package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
)

// side is a table that is compared.
type side struct {
	Program string `json:"program"`
	Pid     uint32 `json:"pid"`
	Status  string `json:"status"`
	Total   uint64 `json:"total,string"`
}

// diff is how the calls of two tables differ, as hotspots diff has it: those that differ most
// first, in columns. Of functions that do not differ it has the number only.
func (s *Server) diff(r *http.Request) (reply, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return reply{}, err
	}
	done, err := s.alone(r.Context())
	if err != nil {
		return reply{}, err
	}
	defer done()
	var both [2]*table.Table
	for i, name := range []string{"before", "after"} {
		p, err := s.program(q.Get(name))
		if err != nil {
			return reply{}, failed(http.StatusNotFound, fmt.Errorf("%s: %w", name, err))
		}
		if both[i], err = p.openTable(); err != nil {
			return reply{}, err
		}
		defer both[i].Close()
	}
	d, err := report.NewDiff(both[0], both[1], nil, report.Options{Mangled: s.Mangled})
	if err != nil {
		return reply{}, err
	}
	d.Sort("delta")
	return jsonReply(diffOf(d))
}

func diffOf(d *report.Diff) map[string]any {
	var names, addresses []string
	before, after, object, objects := []string{}, []string{}, []int{}, []string{}
	known := map[string]int{}
	same := 0
	for _, c := range d.Functions {
		if c.Delta == 0 {
			same++
			continue
		}
		n, ok := known[c.Object]
		if !ok {
			n = len(objects)
			known[c.Object] = n
			objects = append(objects, c.Object)
		}
		names, addresses, object = append(names, c.Name), append(addresses, strconv.FormatUint(uint64(c.Address), 16)), append(object, n)
		before, after = append(before, strconv.FormatUint(c.Before, 10)), append(after, strconv.FormatUint(c.After, 10))
	}
	of := func(p *report.Program) side { return side{p.Program, p.Pid, p.Status, p.TotalCalls} }
	return map[string]any{
		"schema": Schema, "unread": d.Unread, "before": of(&d.Before), "after": of(&d.After), "same": same,
		"names": strings.Join(names, "\n"), "addresses": strings.Join(addresses, "\n"), "object": object, "objects": objects, "calls_before": before, "calls_after": after,
	}
}
