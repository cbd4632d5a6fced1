package edit_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func TestMarkEnded(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Synthetic(100))
	end := layout.Ended{Kind: layout.EndedExit, Time: time.Unix(1700000099, 5)}
	if err := edit.MarkEnded(live.Path, end); err != nil {
		t.Fatal(err)
	}
	if tab := tabletest.Open(t, live.Path); tab.Ended != end {
		t.Errorf("ended %+v, want %+v", tab.Ended, end)
	}
}
