package test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table"
)

// storms are those of storms.c. rows is how many the table may have at the most:
// those that ended processes leave are used again, by whoever needs some.
var storms = []struct {
	how   string
	times int
	rows  uint32
}{
	{"levels", 600, 120}, // 24 live at once
	{"chain", 200, 120},
	{"calls", 200, 40},
	{"commands", 10, 2},
	{"deaths", 90, 40},
	{"daemon", 150, 60},
	{"spaces", 100, 100},
}

// TestExactStorms: processes of processes, counted in wherever they end.
func TestExactStorms(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "storms.c")
	for i, s := range storms {
		t.Run(s.how, func(t *testing.T) {
			t.Parallel()
			for _, flags := range lane.Turn(objects, i) {
				storm(t, p, s.how, s.times, s.rows, flags)
			}
		})
	}
}

func storm(t *testing.T, p, how string, times int, rows uint32, flags []string) {
	t.Helper()
	with, path := countedAt(t, cmd(p, how, strconv.Itoa(times)), flags...)
	if with.status != 0 || with.stderr != "" {
		t.Errorf("%v: status %d: %s", flags, with.status, with.stderr)
	}
	if strings.Contains(with.stdout, "no namespaces") {
		t.Skip("this user may not make namespaces")
	}
	selfCounting(t, comparison{exempt: untallied()}, with, readReport(t, path))
	tab, err := table.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	s, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Rows); n > int(rows) {
		t.Errorf("%v: %d rows in %d rounds, not %d or less", flags, n, times, rows)
	}
	if s.ThreadsDiscarded != 0 {
		t.Errorf("%v: %d threads found no room", flags, s.ThreadsDiscarded)
	}
}
