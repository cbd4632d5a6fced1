package cli

import (
	"encoding/binary"
	"testing"

	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// TestLastOf: of a number that two processes had the later one is meant, be it a program or hotspots
// run.
func TestLastOf(t *testing.T) {
	const number, other = 77, 78
	table := func(path string, run byte, runner, pid uint32, ended uint32) *find.Entry {
		e := &find.Entry{Path: path}
		e.State, e.Pid, e.RunID, e.Ended.Kind = layout.StateLive, pid, [16]byte{run}, ended
		binary.LittleEndian.PutUint32(e.RunID[12:], runner)
		if e.Runner() != runner {
			t.Fatalf("runner %d, not %d", e.Runner(), runner)
		}
		return e
	}
	program := table("program", 1, other, number, layout.EndedExit)
	child := table("child", 2, number, other+1, layout.EndedUnknown)
	started := table("started", 2, number, other, layout.EndedExit)
	for name, c := range map[string]struct {
		all  []*find.Entry
		want *find.Entry
	}{
		"none":                  {nil, nil},
		"of another":            {[]*find.Entry{table("x", 3, other, other, layout.EndedExit)}, nil},
		"a program":             {[]*find.Entry{program}, program},
		"hotspots run":          {[]*find.Entry{child, started}, started},
		"hotspots run, then":    {[]*find.Entry{child, started, program}, started},
		"a program, then a run": {[]*find.Entry{program, child, started}, program},
	} {
		if got := lastOf(c.all, number); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
