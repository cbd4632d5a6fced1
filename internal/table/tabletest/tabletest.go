// Package tabletest makes count tables for tests, and plays the program that
// counts into them.
package tabletest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

var le = binary.LittleEndian

// Spec is a small program: an executable and a library, functions of every
// source, counted and not, with C++, Rust and no names.
func Spec() *build.Spec {
	return &build.Spec{
		Identity: layout.Identity{
			Pid: 4242, UID: uint32(os.Getuid()), StartTicks: 1, BootID: [16]byte{1}, PidNS: 1,
			Realtime: time.Unix(1700000000, 0).UTC(), Monotonic: 1e9,
		},
		RunID: [16]byte{0xab, 0xcd}, Flags: layout.FlagThreshold, Threshold: 1000,
		Program: "/opt/demo/demo", Creator: "test", NoSpare: true, MaxRows: 4,
		Objects: []layout.Object{
			{Path: "/opt/demo/demo", BuildID: "0a1b", Bias: 0x555555554000, Low: 0x555555554000, High: 0x555555560000, Flags: layout.ObjMain | layout.ObjSelected, Code: 4000, Untold: 1250},
			{Path: "/usr/lib/libdemo.so.1", BuildID: "2c3d", Bias: 0x7ffff7000000, Low: 0x7ffff7000000, High: 0x7ffff7010000, Flags: layout.ObjSelected},
			{Path: "/usr/lib/libc.so.6", BuildID: "4e5f", Bias: 0x7ffff6000000, Low: 0x7ffff6000000, High: 0x7ffff6200000, Reason: ledger.ReasonNotSelected},
		},
		Functions: []layout.Function{
			{Object: 0, Address: 0x1139, Size: 36, Name: "main", Counter: 0, Source: ledger.SourceSymtab, Tactic: ledger.TacticJump, Threshold: 1000},
			{Object: 0, Address: 0x1160, Size: 12, Name: "_ZN4demo3addEii", Aliases: []string{"_ZN4demo4plusEii"}, Counter: 1, Source: ledger.SourceSymtab, Tactic: ledger.TacticWholeBody, Threshold: 1000},
			{Object: 0, Address: 0x1170, Size: 90, Counter: 2, Source: ledger.SourceEhFrame, Tactic: ledger.TacticJump, Threshold: 1000},
			{Object: 0, Address: 0x11d0, Size: 2, Name: "tiny", Counter: layout.NoCounter, Source: ledger.SourceSymtab, Reason: ledger.ReasonTooShort},
			{Object: 0, Address: 0x1040, Size: 34, Name: "_start", Counter: layout.NoCounter, Source: ledger.SourceSymtab, Reason: ledger.ReasonStart},
			{Object: 1, Address: 0x2000, Size: 55, Name: "_ZN3foo3bar17h05af221e174051e9E", Counter: 3, Source: ledger.SourceDynsym, Tactic: ledger.TacticHop, Threshold: 1000},
			{Object: 1, Address: 0x2040, Size: 7, Name: "skipped", Counter: layout.NoCounter, Source: ledger.SourceDynsym, Reason: ledger.ReasonNotSelected},
		},
	}
}

// Synthetic is a program of n counted functions with names of usual length.
func Synthetic(n int) *build.Spec {
	spec := Spec()
	spec.NoSpare, spec.MaxRows, spec.Functions = false, 0, make([]layout.Function, n)
	for i := range spec.Functions {
		spec.Functions[i] = layout.Function{
			Address: uint64(0x1000 + 32*i), Size: 32, Name: fmt.Sprintf("_ZN7program9namespaceL16function_%08dEiPKc", i),
			Counter: uint32(i), Source: ledger.SourceSymtab, Tactic: ledger.TacticJump,
		}
	}
	return spec
}

// Live is a published table that is counted into.
type Live struct {
	layout.Geometry
	Path  string
	Nonce [16]byte

	tb testing.TB
	f  *os.File
}

// Create makes and publishes a table named name in a directory of the test's.
func Create(tb testing.TB, name string, spec *build.Spec) *Live {
	tb.Helper()
	return CreateAt(tb, filepath.Join(tb.TempDir(), name), spec)
}

// CreateAt makes and publishes a table at path.
func CreateAt(tb testing.TB, path string, spec *build.Spec) *Live {
	tb.Helper()
	f, err := build.Create(path, spec)
	if err != nil {
		tb.Fatal(err)
	}
	if err := f.Publish(); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	l := &Live{Geometry: f.Geometry, Path: f.Path(), Nonce: f.Nonce, tb: tb}
	if l.f, err = os.OpenFile(l.Path, os.O_RDWR, 0); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.f.Close() })
	return l
}

// Row hands out row r.Index.
func (l *Live) Row(r layout.Row) {
	l.tb.Helper()
	b := make([]byte, layout.RowBirth)
	le.PutUint32(b[layout.RowState:], r.State)
	le.PutUint32(b[layout.RowKind:], r.Kind)
	le.PutUint32(b[layout.RowPid:], r.Pid)
	le.PutUint32(b[layout.RowTid:], r.Tid)
	le.PutUint32(b[layout.RowOwner:], r.Owner)
	le.PutUint32(b[layout.RowIndex:], r.Index)
	l.Write(l.row(r.Index), b)
	var used [4]byte
	if _, err := l.f.ReadAt(used[:], layout.HdrRowsUsed); err != nil {
		l.tb.Fatal(err)
	}
	l.Word(layout.HdrRowsUsed, max(le.Uint32(used[:]), r.Index+1))
}

// Set stores the counters of one row, from the first on.
func (l *Live) Set(row uint32, counts ...uint64) {
	l.tb.Helper()
	var b []byte
	for _, c := range counts {
		b = le.AppendUint64(b, c)
	}
	l.Write(l.row(row)+layout.RowCounters, b)
}

// Fire stores the n-th event, and marks its counter as fired.
func (l *Live) Fire(n int, counter, row, pid uint32, calls, monotonic uint64) {
	l.tb.Helper()
	b := make([]byte, layout.EvEntrySize)
	le.PutUint64(b[layout.EvSeq:], uint64(n+1))
	le.PutUint64(b[layout.EvTime:], monotonic)
	le.PutUint64(b[layout.EvCount:], calls)
	le.PutUint32(b[layout.EvCounter:], counter)
	le.PutUint32(b[layout.EvRow:], row)
	le.PutUint32(b[layout.EvPid:], pid)
	le.PutUint32(b[layout.EvTid:], pid)
	l.Write(int64(l.Events.Offset)+int64(n)*layout.EvEntrySize, b)
	l.Word(int64(l.Fired.Offset)+4*int64(counter), 1)
	l.Write(layout.HdrEventsHead, le.AppendUint64(nil, uint64(n+1)))
}

// Word stores a 32-bit word at an offset of the file.
func (l *Live) Word(at int64, v uint32) {
	l.tb.Helper()
	l.Write(at, le.AppendUint32(nil, v))
}

// Write stores bytes at an offset of the file.
func (l *Live) Write(at int64, b []byte) {
	l.tb.Helper()
	if _, err := l.f.WriteAt(b, at); err != nil {
		l.tb.Fatal(err)
	}
}

// Close closes the program's end of the table: nobody counts any more.
func (l *Live) Close() { l.f.Close() }

func (l *Live) row(i uint32) int64 {
	return int64(l.Rows.Offset) + int64(i)*int64(l.Rows.EntrySize)
}

// Demo is a table of Spec with counts in two rows and two events: 700 calls of
// main, 1500 of add, 3 of the nameless one, 20 of foo::bar.
func Demo(tb testing.TB, path string, spec *build.Spec) *Live {
	tb.Helper()
	l := CreateAt(tb, path, spec)
	l.Row(layout.Row{Index: 0, State: layout.RowLive, Pid: spec.Pid, Tid: spec.Pid})
	l.Row(layout.Row{Index: 1, State: layout.RowFree, Pid: spec.Pid, Tid: spec.Pid + 1})
	l.Set(0, 700, 1000|layout.CounterFired, 3, 0)
	l.Set(1, 0, 500, 0, 20)
	l.Fire(0, 1, 0, spec.Pid, 1000, 2e9)
	return l
}

// OpenLive is the program's end of the table at path, which another process made.
func OpenLive(tb testing.TB, path string) *Live {
	tb.Helper()
	t, err := file.OpenHead(path, os.O_RDWR)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { t.Close() })
	return &Live{Geometry: t.Geometry, Path: path, Nonce: t.Nonce, tb: tb, f: t.OS()}
}

// Load is the word at an offset of the file.
func (l *Live) Load(at int64) uint32 {
	l.tb.Helper()
	var b [4]byte
	if _, err := l.f.ReadAt(b[:], at); err != nil {
		l.tb.Fatal(err)
	}
	return le.Uint32(b[:])
}

// Memory is the table as the program has it mapped, for those who add to it.
func (l *Live) Memory() build.Memory { return l.f }
