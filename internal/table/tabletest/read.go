package tabletest

import (
	"os"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Open opens the table at path until the test ends.
func Open(t testing.TB, path string) *table.Table {
	t.Helper()
	tab, err := table.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tab.Close() })
	return tab
}

// Snapshot reads the counts of tab.
func Snapshot(t testing.TB, tab *table.Table) *table.Snapshot {
	t.Helper()
	s, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// SinceReset reads the counts of tab since the last reset, of which every one has
// its owner.
func SinceReset(t testing.TB, tab *table.Table) *table.Snapshot {
	t.Helper()
	s, err := tab.SinceReset()
	if err != nil {
		t.Fatal(err)
	}
	var owners uint64
	for _, o := range s.Owners() {
		owners += o.Calls
	}
	if owners != s.Total() {
		t.Errorf("the owners have %d calls, the functions %d", owners, s.Total())
	}
	return s
}

// Map maps the file's header, as a program that counts has it mapped, and closes
// the file.
func Map(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := syscall.Mmap(int(f.Fd()), 0, layout.PageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Writable opens the file for writing until the test ends.
func Writable(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Late is an object with two functions, numbered behind those of spec.
func Late(object uint16, counter uint32) *build.Spec {
	return &build.Spec{
		Objects: []layout.Object{{Path: "/usr/lib/late.so", BuildID: "abcd", Flags: layout.ObjSelected | layout.ObjLate}},
		Functions: []layout.Function{
			{Address: 0x1000, Size: 9, Name: "late_one", Aliases: []string{"late_eins"}, Counter: counter, Object: object, Tactic: ledger.TacticJump},
			{Address: 0x1010, Size: 7, Counter: counter + 1, Object: object, Tactic: ledger.TacticWholeBody},
		},
	}
}
