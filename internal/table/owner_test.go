package table_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestOwners: rows whose owners changed, with notes that are missing, damaged or
// being written.
func TestOwners(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	le := binary.LittleEndian
	notes := 0
	note := func(row, tid uint32, from, to uint64) {
		b := make([]byte, layout.FmEntrySize)
		le.PutUint64(b[layout.FmFrom:], from)
		le.PutUint64(b[layout.FmTo:], to)
		le.PutUint32(b[layout.FmRow:], row)
		le.PutUint32(b[layout.FmPid:], 4242)
		le.PutUint32(b[layout.FmTid:], tid)
		le.PutUint32(b[layout.FmIncarnation:], 1)
		live.Write(int64(live.Formers.Offset)+int64(notes)*layout.FmEntrySize, b)
		notes++
		live.Write(layout.HdrFormersHead, le.AppendUint64(nil, uint64(notes)))
	}
	base := func(row, base uint64) {
		live.Write(int64(live.Rows.Offset+row*uint64(live.Rows.EntrySize))+layout.RowBase, le.AppendUint64(nil, base))
	}
	want := func(want string) {
		t.Helper()
		got := ""
		for _, o := range tabletest.SinceReset(t, tabletest.Open(t, live.Path)).Owners() {
			got += fmt.Sprintf("%d:%d ", o.Tid, o.Calls)
		}
		if got != want {
			t.Errorf("owners %q, want %q", got, want)
		}
	}
	want("4242:1703 4243:520 ")
	base(1, 300)
	note(2, 7, 0, 100) // row 1, as noted
	note(2, 8, 250, 300)
	want("4242:1703 7:100 8:50 4243:220 0:150 ")
	note(0, 9, 100, 200) // being written
	want("4242:1703 7:100 8:50 4243:220 0:150 ")
	if err := edit.Reset(live.Path); err != nil {
		t.Fatal(err)
	}
	want("")
	live.Set(1, 0, 500, 10, 30)
	want("4243:20 ")
	base(1, 535)
	note(2, 10, 300, 535)
	want("10:15 4243:5 ")
	note(2, 11, 100, 1<<63) // nonsense: the sum is right all the same
	note(1, 12, 1<<63, 5)
	want("11:15 4243:5 ")
	base(1, layout.ManyOwners)
	want("11:20 ")
}
