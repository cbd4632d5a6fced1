package flow

import (
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/stubgen/internal/fixture"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// TestDispatches: how many entries a jump may take is what its function's name says, or why
// there is no graph.
func TestDispatches(t *testing.T) {
	o, sites := fixture.LoadWhole(t, fixture.Link(t, "testdata/dispatch.s"))
	p := New(survey.New(o, 1), sites, 1)
	asked := 0
	for i := range p.Units() {
		name := o.Functions[p.Units()[i].Function].Name
		at := strings.LastIndexByte(name, '_')
		if at < 0 || name == "_start" {
			continue
		}
		asked++
		got := "none"
		if g, why := p.Graph(i); g == nil {
			got = why.String()
		} else if list := g.Dispatches(o); len(list) == 1 {
			got = strconv.Itoa(len(list[0].Targets))
			for _, to := range list[0].Targets {
				if to == 0 {
					t.Errorf("%s: %+v", name, list[0])
				}
			}
		}
		if want := name[at+1:]; got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if asked < 20 {
		t.Errorf("%d functions", asked)
	}
}
