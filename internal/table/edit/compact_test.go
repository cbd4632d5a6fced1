package edit_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// A mapping alone, without a descriptor, keeps the file as it is. A compact one
// holds the same, with resets before and after.
func TestCompact(t *testing.T) {
	for _, spec := range []*build.Spec{tabletest.Spec(), tabletest.Synthetic(100), tabletest.Synthetic(20000)} {
		live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
		reset(t, live.Path)
		reset(t, live.Path) // the baseline is not the first
		missed := make([]byte, layout.MsEntrySize)
		missed[layout.MsReason], missed[layout.MsTimes] = byte(ledger.ReasonNoMemory), 3
		copy(missed[layout.MsPath:], "/lib/x.so")
		live.Write(int64(live.Missed.Offset), missed)
		live.Word(layout.HdrMissedHead, 1)
		live.Set(1, 5000, 6000, 7000)
		mapping := tabletest.Map(t, live.Path)
		live.Close()
		if err := edit.Compact(live.Path); !errors.Is(err, edit.ErrInUse) {
			t.Errorf("while it is mapped: %v", err)
		}
		before := held(t, live.Path)
		if err := syscall.Munmap(mapping); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := edit.Compact(live.Path); err != nil {
				t.Fatal(err)
			}
			if after := held(t, live.Path); !reflect.DeepEqual(before, after) {
				t.Errorf("before %+v\nafter %+v", before, after)
			}
		}
		fi, err := os.Stat(live.Path)
		if limit := int64(100*len(before.functions) + 4*(8*len(before.functions)+layout.PageSize) + 16*layout.PageSize); err != nil || fi.Size() > limit || fi.Mode().Perm() != 0o600 {
			t.Errorf("%d bytes, limit %d; %v, %v", fi.Size(), limit, fi.Mode(), err)
		}
		reset(t, live.Path)
		if s := tabletest.SinceReset(t, tabletest.Open(t, live.Path)); s.Total() != 0 {
			t.Errorf("%d calls after a reset", s.Total())
		}
	}
}

// contents is all that readers see of a table.
type contents struct {
	header    layout.Header
	objects   []layout.Object
	functions []layout.Function
	all       []uint64
	since     []uint64
	owners    []table.Owner
	events    []table.Event
	missed    []table.Missed
}

func held(t *testing.T, path string) contents {
	t.Helper()
	tab := tabletest.Open(t, path)
	defer tab.Close()
	events, err := tab.Events()
	if err != nil {
		t.Fatal(err)
	}
	since, now := tabletest.SinceReset(t, tab), tabletest.Snapshot(t, tab)
	return contents{tab.Header, tab.Objects, tab.Functions, now.Calls, since.Calls, since.Owners(), events, now.Missed}
}
