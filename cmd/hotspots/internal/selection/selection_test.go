package selection_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/selection"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table/layout"
)

func TestUnmatched(t *testing.T) {
	var l selection.Ledger
	l.Add([]layout.Object{{Path: "/opt/demo"}, {Path: "/lib/libssl.so.3"}}, []layout.Function{
		{Name: "collatz"}, {Name: "show", Aliases: []string{"display"}}, {Name: "_ZN4demo4plusEii"},
		{Name: "parse_header", Object: 1}, {Name: "Render", Object: 1}, {Address: 0x1234},
		{Name: "_start", Reason: ledger.ReasonStart},
	})
	files := func(name string) ([]byte, error) {
		if name != "list" {
			return nil, errors.New("none")
		}
		return []byte("# names\ncollatz\ncolatz\n\na1\na2\na3\na4\n"), nil
	}
	for _, row := range []struct {
		selection.Selection
		want []string // a part of each line
	}{
		{selection.Selection{}, nil},
		{selection.Selection{Only: "collatz", Skip: "^sh", Objects: "all,main,libssl*", Thresholds: []string{"5", "col*=5;operator==7", "parse_?eader=1"}}, []string{"--threshold operator=: "}},
		{selection.Selection{Only: "colatz"}, []string{"--only colatz: no function that may be counted has such a name; did you mean collatz?"}},
		{selection.Selection{Only: "^show$|^rendr$"}, []string{"--only ^rendr$: no function that may be counted has such a name; did you mean Render?"}},
		{selection.Selection{Only: "(show|nothing)"}, nil},
		{selection.Selection{Skip: "^plsu$"}, []string{"did you mean demo::plus(int, int)?"}},
		{selection.Selection{Skip: "HEADER"}, []string{"did you mean parse_header?"}},
		{selection.Selection{Only: "display"}, []string{"--only display: that function is shown as show"}},
		{selection.Selection{Only: "zzzzzz"}, []string{"--only zzzzzz: no function that may be counted has such a name"}},
		{selection.Selection{Only: "_start"}, []string{"--only _start: no function"}},
		{selection.Selection{Only: "^demo\\+0x1234$"}, nil},
		{selection.Selection{Only: "@list"}, []string{"--only @list: colatz: no function that may be counted has such a name; did you mean collatz?", "@list: a1: ", "@list: a2: ", "--only @list: and 2 more names"}},
		{selection.Selection{Only: "@missing"}, nil},
		{selection.Selection{Objects: "nosuch"}, []string{"--objects nosuch: the program has no object of that name"}},
		{selection.Selection{Objects: "libsl.so*,demo"}, []string{"--objects libsl.so*: the program has no object of that name; did you mean libssl.so.3?"}},
		{selection.Selection{Objects: "/opt/dema"}, []string{"did you mean /opt/demo?"}},
		{selection.Selection{Thresholds: []string{"colatz=1000"}}, []string{"--threshold colatz: no function that may be counted has such a name; did you mean collatz?"}},
		{selection.Selection{Blocks: "coll*, colatz"}, []string{"--blocks=colatz: no function that may be counted has such a name; did you mean collatz?"}},
		{selection.Selection{Blocks: "@list"}, []string{"--blocks @list: colatz: no function that may be counted has such a name; did you mean collatz?", "@list: a1: ", "@list: a2: ", "--blocks @list: and 2 more names"}},
	} {
		got := row.Unmatched(&l, files)
		if len(got) != len(row.want) {
			t.Errorf("%+v: %q", row.Selection, got)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], row.want[i]) || strings.HasSuffix(got[i], "?") != strings.HasSuffix(row.want[i], "?") {
				t.Errorf("%+v: %q, not %q", row.Selection, got[i], row.want[i])
			}
		}
	}
	if empty := (&selection.Selection{Objects: "all, main", Thresholds: []string{"7"}}); !empty.Empty() {
		t.Error("all and main are no names")
	}
	if named := (&selection.Selection{Thresholds: []string{"f=7"}}); named.Empty() {
		t.Error("a threshold has a name")
	}
}
