package cli

import (
	"github.com/dynprof/dynprof/cmd/hotspots/internal/selection"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/textfile"
)

// selection is what the flags choose by names.
func (f *runFlags) selection() *selection.Selection {
	blocks := f.blocksOf
	if blocks == setting.BlocksHot {
		blocks = ""
	}
	return &selection.Selection{Objects: f.objects, Only: f.only, Skip: f.skip, Thresholds: f.thresholds, Blocks: blocks}
}

// checkSelection says which names that the user gave nothing in the tables has, and
// reports whether there are none. Which libraries a program loads is known behind its end.
func (a *app) checkSelection(s *selection.Selection, tables []string, ended bool) bool {
	var l selection.Ledger
	for _, path := range tables {
		t, err := table.Open(path)
		if err != nil {
			return true // whoever reads it says so
		}
		l.Add(t.Objects, t.Functions)
		t.Close()
	}
	lines := s.Unmatched(&l, textfile.Read)
	for _, line := range lines {
		if !ended {
			line = "so far: " + line
		}
		a.say("%s", line)
	}
	return len(lines) == 0
}
