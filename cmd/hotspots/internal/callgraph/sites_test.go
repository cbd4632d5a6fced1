package callgraph

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// bySites is a program of which two functions call a third, and one itself.
func bySites() *List {
	objects := []layout.Object{{Path: "/bin/app"}}
	functions := []layout.Function{
		{Address: f, Name: "f", Counter: 0, Tactic: ledger.TacticJump}, {Address: g, Name: "g", Counter: 1, Tactic: ledger.TacticJump},
		{Address: h, Name: "h", Counter: 2, Tactic: ledger.TacticJump}, {Address: plt, Name: "part", Counter: layout.NoCounter, Reason: ledger.ReasonColdPart},
	}
	site := func(at uint64, caller, callee, flags uint32, calls uint64) table.Site {
		return table.Site{Site: layout.Site{Address: at, Caller: caller, Callee: callee, Counter: 9, Flags: flags}, Calls: calls}
	}
	sites := []table.Site{
		site(f+5, 0, 2, 0, 10), site(f+15, 0, 2, 0, 5), site(f+25, 0, 2, layout.SiteTail, 7), site(g+5, 1, 2, 0, 4), site(g+10, 1, 2, 0, 0), site(h+5, 2, 2, 0, 100),
		site(plt, 3, 1, 0, 2),
	}
	sites[4].Counter = layout.NoCounter
	return &List{Graph: NewOfSites(objects, functions, []uint64{1, 3, 130, 0}, sites, Files{}), Program: "/bin/app", Objects: objects}
}

// TestSites: sites of one function and one callee are an edge, jumps are one of their own, and
// what is left of a callee's calls is from elsewhere.
func TestSites(t *testing.T) {
	l := bySites()
	var got []string
	for _, e := range l.Edges {
		got = append(got, fmt.Sprintf("%s -> %s: %v %d at %x", l.end(e.Caller, "-"), l.end(e.Callee, "-"), e.Kind, e.Calls, e.Sites))
	}
	want := []string{
		"h of app -> h of app: call 100 at [{1205 64}]",
		"f of app -> h of app: call 15 at [{1005 a} {100f 5}]",
		"f of app -> h of app: tail call 7 at [{1019 7}]",
		"- -> h of app: elsewhere 4 at []",
		"g of app -> h of app: call 4 at [{1105 4}]",
		"part of app -> g of app: call 2 at [{2000 2}]",
		"- -> f of app: elsewhere 1 at []",
		"- -> g of app: elsewhere 1 at []",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	var text, json bytes.Buffer
	if err := l.Text(&text, report.Style{}); err != nil || !strings.HasPrefix(text.String(), "/bin/app: 128 calls between functions; besides, 6 came from elsewhere; 1 of 7 call sites are not counted\n") {
		t.Errorf("%v: %s", err, text.String())
	}
	if err := l.JSON(&json); err != nil || !strings.Contains(json.String(), `"sites_counted":6,"sites_not_counted":1,"edges":[`) {
		t.Errorf("%v: %s", err, json.String())
	}
	text.Reset()
	json.Reset()
	l.BySite.WithoutRoom = []string{"/lib/a.so"}
	if err := l.Text(&text, report.Style{}); err != nil || !strings.Contains(text.String(), "; 1 of 7 call sites are not counted, and there was no room for those of /lib/a.so\n") {
		t.Errorf("%v: %s", err, text.String())
	}
	if err := l.JSON(&json); err != nil || !strings.Contains(json.String(), `"sites_without_room":["/lib/a.so"]`) {
		t.Errorf("%v: %s", err, json.String())
	}
}
