package table_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

var le = binary.LittleEndian

// demo is the bytes of a table with counts, events, an owner that has gone, an
// object that was missed, and a reset.
func demo(t *testing.T) []byte {
	t.Helper()
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	live.Write(int64(live.Missed.Offset), []byte{15, 0, 0, 0, 2, 0, 0, 0, '/', 'x'})
	live.Word(layout.HdrMissedHead, 1)
	live.Write(int64(live.Formers.Offset)+layout.FmRow, []byte{2})
	live.Write(layout.HdrFormersHead, []byte{1})
	if err := edit.Reset(live.Path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(live.Path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// known fails unless err is one of those that a reader gives.
func known(t *testing.T, what string, err error) {
	t.Helper()
	for _, e := range []error{layout.ErrNotTable, layout.ErrVersion, layout.ErrBuilding, layout.ErrTruncated, layout.ErrCorrupt} {
		if errors.Is(err, e) {
			return
		}
	}
	t.Errorf("%s: %v", what, err)
}

// use reads all that a table says, in all ways, and wants it to hold together.
func use(t *testing.T, what string, b []byte) {
	t.Helper()
	m, meterErr := table.NewMeter(bytes.NewReader(b), int64(len(b)))
	tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		known(t, what, err)
	}
	if meterErr != nil {
		if known(t, what, meterErr); err == nil {
			t.Errorf("%s: the meter says %v, the table is good", what, meterErr)
		}
		return
	}
	var r table.Reading
	total := uint64(0)
	readErr := m.Read(&r)
	if readErr != nil {
		known(t, what, readErr)
	}
	for _, n := range r.Calls {
		total += n
	}
	if namesErr := m.Names(nil, func(n table.Named) bool { return n.Object != "" || n.Name != "" }); namesErr != nil {
		known(t, what, namesErr)
	}
	if readErr == nil && r.Total != total {
		t.Errorf("%s: %d calls in all of %d", what, r.Total, total)
	}
	if err != nil {
		return
	}
	s, err := tab.Snapshot()
	if err != nil {
		known(t, what, err)
		return
	}
	if len(s.Calls) != len(tab.Functions) || s.Threads() > len(s.Rows) {
		t.Errorf("%s: %d counts of %d functions, %d threads in %d rows", what, len(s.Calls), len(tab.Functions), s.Threads(), len(s.Rows))
	}
	if since, err := tab.SinceReset(); err != nil {
		known(t, what, err)
	} else {
		for i := range since.Calls {
			if since.Calls[i] > s.Calls[i] {
				t.Errorf("%s: function %d has %d calls of %d since the reset", what, i, since.Calls[i], s.Calls[i])
			}
		}
		since.Owners()
	}
	events, err := tab.Events()
	if err != nil {
		known(t, what, err)
	}
	for _, e := range events {
		if e.Function < -1 || e.Function >= len(tab.Functions) || e.Outcome.String() == "" {
			t.Errorf("%s: event %+v", what, e)
		}
	}
	alive.Of(tab.File)
}

// TestHostileWords: whatever any word of the header, of an entry or of a row says,
// it is an error that is known, or a table that holds together.
func TestHostileWords(t *testing.T) {
	whole := demo(t)
	use(t, "whole", whole)
	g, err := layout.DecodeGeometry(whole, int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	var at []int
	for from, size := range map[int]int{
		0: 0x400, int(g.Objects.Offset): layout.ObjEntrySize, int(g.Functions.Offset): 2 * layout.FnEntrySize,
		int(g.Aliases.Offset): 16, int(g.Events.Offset): layout.EvEntrySize, int(g.Fired.Offset): 16,
		int(g.Formers.Offset): layout.FmEntrySize, int(g.Missed.Offset): 16, int(g.Baselines.Offset): layout.BlCounts + 16,
		int(g.Rows.Offset): layout.RowCounters + 16,
	} {
		for i := from; i < from+size; i += 4 {
			at = append(at, i)
		}
	}
	for _, at := range at {
		was := le.Uint32(whole[at:])
		for _, v := range []uint32{0, 1, was + 1, was - 1, was << 8, 0x7fffffff, 0x80000000, math.MaxUint32} {
			b := bytes.Clone(whole)
			le.PutUint32(b[at:], v)
			use(t, fmt.Sprintf("word %#x is %#x", at, v), b)
		}
	}
}

// TestCutTables: a table that ends anywhere is one that says so.
func TestCutTables(t *testing.T) {
	whole := demo(t)
	g, err := layout.DecodeGeometry(whole, int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	counts := int(g.Rows.Offset) + 2*int(g.Rows.EntrySize) // two rows are in use
	for n := 0; n < len(whole); n += 1021 {
		b := whole[:n]
		if _, err := table.NewReader(bytes.NewReader(b), int64(n)); !errors.Is(err, layout.ErrTruncated) && n >= len(layout.Magic) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
		// It was whole when it was opened.
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(whole)))
		if err != nil {
			known(t, "cut", err)
			continue
		}
		if _, err := tab.Snapshot(); errors.Is(err, layout.ErrTruncated) != (n < counts) {
			t.Errorf("the counts in %d of %d bytes: %v", n, len(whole), err)
		}
	}
}

// TestCutWhileRead: a file that is cut short under a meter or a table is an error, and
// its counts do not go back.
func TestCutWhileRead(t *testing.T) {
	for _, size := range []int64{0, 100, layout.HeaderSize} {
		live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
		tab, m, r := tabletest.Open(t, live.Path), meter(t, live.Path), &table.Reading{}
		if err := m.Read(r); err != nil || r.Total != 2223 {
			t.Fatalf("%d calls, %v", r.Total, err)
		}
		if err := os.Truncate(live.Path, size); err != nil {
			t.Fatal(err)
		}
		err := m.Read(r)
		if known(t, "meter", err); !strings.HasPrefix(err.Error(), live.Path) {
			t.Errorf("no path in %q", err)
		}
		if _, err := tab.Snapshot(); size < layout.HeaderSize && !errors.Is(err, layout.ErrTruncated) {
			t.Errorf("counts of %d bytes: %v", size, err)
		}
	}
}

// Another table in the place of the one that was opened is not taken for it.
func TestReplaced(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	m := meter(t, live.Path)
	live.Write(layout.HdrNonce, []byte{1, 2, 3})
	if err := m.Read(&table.Reading{}); !errors.Is(err, layout.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// TestDamagedLedger: what is wrong in the ledger is told.
func TestDamagedLedger(t *testing.T) {
	whole := demo(t)
	g, err := layout.DecodeGeometry(whole, int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	objects, functions, aliases, names := int(g.Objects.Offset), int(g.Functions.Offset), int(g.Aliases.Offset), int(g.Strings.Offset)
	last := names + int(g.Strings.Count) - 1
	for want, change := range map[string]func(b []byte){
		"object 0 is empty":            func(b []byte) { clear(b[objects:][:layout.ObjEntrySize]) },
		"function 1 is empty":          func(b []byte) { clear(b[functions+layout.FnEntrySize:][:layout.FnEntrySize]) },
		"function 0 has object 3 of 3": func(b []byte) { b[functions+layout.FnObject] = 3 },
		"counter 4 of 4":               func(b []byte) { b[functions+layout.FnCounter] = 4 },
		"no alias list at 5":           func(b []byte) { b[functions+layout.FnAliases] = 5 },
		"alias list at 1 is empty":     func(b []byte) { clear(b[aliases+4:][:12]) },
		"string at 65535 of":           func(b []byte) { le.PutUint32(b[objects+layout.ObjPath:], 65535) },
		"has no end":                   func(b []byte) { b[last] = 'x' },
		"an empty string among the":    func(b []byte) { b[names+2], b[names+3] = 0, 0 },
		"string at 4294967295 of":      func(b []byte) { le.PutUint32(b[functions+layout.FnName:], math.MaxUint32) },
		"string at 4294967294 of":      func(b []byte) { le.PutUint32(b[aliases+4:], math.MaxUint32-1) },
		"string at 4294967293 of":      func(b []byte) { le.PutUint32(b[objects+layout.ObjBuildID:], math.MaxUint32-2) },
	} {
		b := bytes.Clone(whole)
		change(b)
		if _, err := table.NewReader(bytes.NewReader(b), int64(len(b))); !errors.Is(err, layout.ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		use(t, want, b)
	}
}
