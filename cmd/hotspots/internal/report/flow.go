package report

import (
	"fmt"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Flow is how control went in the functions of a table, and the snapshot that tells their
// calls; an error that says what to do where blocks are not counted.
func Flow(t *table.Table) (*table.Snapshot, *table.Flow, error) {
	if paths := Flagged(t, layout.ObjGo); !t.HasBlocks() && len(paths) > 0 {
		return nil, nil, fmt.Errorf("%s counts no blocks: %s has a Go runtime, and is counted by call", t.Path(), paths[0])
	}
	if paths := Flagged(t, layout.ObjByCall); !t.HasBlocks() && len(paths) > 0 {
		return nil, nil, fmt.Errorf("%s counts no blocks: there was no room for those of %s: count some of its functions only, by --only", t.Path(), paths[0])
	}
	if !t.HasBlocks() {
		return nil, nil, fmt.Errorf("%s counts no blocks: run the program with hotspots run --blocks", t.Path())
	}
	s, err := t.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	flow, err := t.Flow(s)
	return s, flow, err
}

// NoneNamed is the error that no function has the name that a user gave.
func NoneNamed(name string) error {
	return fmt.Errorf("%s: no function of that name: hotspots report --filter %s shows those that are like it", name, name)
}
